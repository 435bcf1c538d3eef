//! A bulk command that is interrupted between two batches prints what was done and how to undo it.

use std::fs::File;
use std::io;
use std::io::Write as _;

use redrive_tests::prelude::*;

use super::{bury, program};

const UPDATE: &str = "UPDATE ON redrive.dead_letters";

/// Starts a command as a process, sends it a signal while it changes a row whose kind is `held`, or one without a kind,
/// and returns what it printed.
fn interrupted(test: &TestDatabase, change: &str, signal: &str, line: &str) -> Ran {
    let hold = "IF coalesce(to_jsonb(NEW) ->> 'kind', 'held') = 'held' THEN \
                PERFORM pg_advisory_xact_lock(1); END IF";
    test.before(change, hold);
    let mut holder = test.client();
    holder.sql("SELECT pg_advisory_lock(1)");
    let process = Process::start(program(test).args(words(line)));
    blocked(&mut holder, 1);
    process.signal(signal);
    holder.sql("SELECT pg_advisory_unlock(1)");
    process.exits_with(1)
}

/// Marks the letter at this place, in the order of ids, as the one that waits at the gate.
fn hold_at(client: &mut Client, place: i64) {
    let hold = "UPDATE redrive.dead_letters SET kind = 'held' WHERE id = \
                (SELECT id FROM redrive.dead_letters ORDER BY id OFFSET $1 LIMIT 1)";
    client.change(hold, &[&(place - 1)]);
}

/// Returns ids as words of a command.
fn listed(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(" ")
}

/// Fails unless the command says how far it came, and which command of letters undoes that. Returns its arguments.
#[track_caller]
fn undo(ran: &Ran, how_far: &str, by: &str) -> String {
    let stopped = format!("stopped: {how_far}; undo: redrive ");
    let lines = ran.err.lines();
    let undo: String = lines
        .filter_map(|line| line.strip_prefix(&*stopped))
        .collect();
    let is_right = undo.starts_with(&format!("dlq {by} audit="));
    assert!(is_right, "{stopped}dlq {by} is not in {}", ran.err);
    undo
}

#[test]
fn an_interrupted_discard_and_an_interrupted_reopening_can_be_undone() {
    let (test, db, mut client) = TestDatabase::with_handle();
    bury(&test, 1200);
    hold_at(&mut client, 700);
    let discard = "dlq discard orders --reason 'test data' --yes";
    let output = interrupted(&test, UPDATE, "INT", discard);
    let reopen = undo(&output, "1,000 of 1,200 letters discarded", "reopen");
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 1000);

    hold_at(&mut client, 200);
    let output = interrupted(&test, UPDATE, "TERM", &reopen);
    let again = undo(&output, "500 of 1,000 letters reopened", "discard");
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 500);
    test.run(again);
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 1000);
    test.run("dlq reopen orders --yes");
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 1200);

    // Letters that it had no time for are not explained one by one.
    let ids: Vec<i64> = client.column("SELECT id FROM redrive.dead_letters ORDER BY id", &[]);
    let discard = format!("dlq discard {} --reason test", listed(&ids));
    let output = interrupted(&test, UPDATE, "INT", &discard);
    undo(&output, "500 of 1,200 letters discarded", "reopen");
    lacks(output.err, "not discarded");
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 500);
}

#[test]
fn an_interrupted_split_says_how_far_it_came_and_goes_on_later() {
    let (test, mut client) = TestDatabase::with_client();
    bury(&test, 1200);
    hold_at(&mut client, 700);
    let group: i64 = client.ask("SELECT DISTINCT group_id FROM redrive.dead_letters", &[]);
    let split = format!("dlq groups split {group} --error . --yes");
    let output = interrupted(&test, UPDATE, "INT", &split);
    has(
        output.err,
        "stopped: 1,000 of 1,200 letters moved; repeat the command",
    );
    test.run(split).shows("200 letters moved");
}

/// A full disk must not hide that letters changed.
#[test]
fn a_report_that_cannot_be_written_is_told_on_stderr() {
    let test = TestDatabase::migrated();
    bury(&test, 1);
    let line = "dlq discard orders --reason test --yes";
    let full = File::create("/dev/full").expect("a full disk");
    let done = program(&test)
        .args(words(line))
        .stdout(full)
        .output()
        .expect("a process");
    has(
        String::from_utf8_lossy(&done.stderr),
        "1 of 1 letter discarded; undo: redrive dlq reopen audit=",
    );
}

#[test]
fn an_interrupted_edit_is_undone_as_a_whole() {
    let (test, mut client) = TestDatabase::with_client();
    bury(&test, 250);
    hold_at(&mut client, 150);
    let edited = "dead_letters WHERE payload::jsonb ? 'currency'";
    let edit = r#"dlq edit orders --merge '{"currency": "EUR"}' --yes"#;
    let output = interrupted(&test, UPDATE, "INT", edit);
    let restore = undo(&output, "200 of 250 letters edited", "edit");
    assert_eq!(client.count(edited), 200);

    let dry = restore.strip_suffix(" --yes").expect("a change");
    test.run(dry).shows("; 200 would be restored");
    assert_eq!(client.count(edited), 200, "a dry run changes nothing");
    test.run(restore);
    assert_eq!(client.count(edited), 0);
    let records = "SELECT count(*), count(batch_of) FROM redrive.audit \
                   WHERE verb = 'edit' AND about ->> 'how' = 'restore'";
    let records: (i64, i64) = client.row(records, &[]);
    assert_eq!(records, (2, 1));

    // So is one of letters that are given by id.
    let ids: Vec<i64> = client.column("SELECT id FROM redrive.dead_letters ORDER BY id", &[]);
    let restore = format!("dlq edit {} --undo", listed(&ids));
    let output = interrupted(&test, UPDATE, "TERM", &restore);
    undo(&output, "200 of 250 letters restored", "edit");
}

#[test]
fn an_interrupted_delivery_ends_its_command_and_says_how_far_it_came() {
    let (test, mut client) = TestDatabase::with_client();
    bury(&test, 3);
    let ids: Vec<i64> = client.column("SELECT id FROM redrive.dead_letters ORDER BY id", &[]);
    let first = ids[0];
    let exec = format!("test $REDRIVE_LETTER_ID = {first} || sleep 600");
    let line = ["dlq", "deliver", "orders", "--yes", "--exec", &exec];
    let process = Process::start(program(&test).arg("--json").args(line));
    let db = test.open();
    wait_until("the first letter to be delivered", SOON, || {
        letters_in(&db, "orders", LetterState::Recovered) == 1
    });
    process.signal("INT");
    let ran = process.exits_with(1);
    let skipped = json!([{"reason": "failed", "letters": 1, "ids": [ids[1]]}]);
    let total = json!({"action": "deliver", "dry_run": false, "letters": 1, "skipped": skipped});
    assert_eq!(ran.lines(), [total]);
    let message = "stopped: 1 of 3 letters delivered; the others stay open";
    let told: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    assert_eq!(told, json!({ "message": message }));
}

#[test]
fn an_interrupted_edit_ends_its_command() {
    let (test, mut client) = TestDatabase::with_client();
    bury(&test, 3);
    let (first, second) = (TempFile::of(""), TempFile::of(""));
    let exec = format!(
        "test -s {first} && {{ echo begun > {second}; sleep 600; }}; echo 1 > {first}; echo '[1]'"
    );
    let line = ["dlq", "edit", "orders", "--yes", "--deadline", "1h"];
    let process = Process::start(program(&test).args(line).args(["--exec", &exec]));
    wait_until("the second command to begin", SOON, || {
        !second.bytes().is_empty()
    });
    process.signal("TERM");
    process.exits_with(1).shows("1 letter edited");
    assert_eq!(client.count("dead_letters WHERE edits > 0"), 1);
}

#[test]
fn a_signal_between_the_checks_of_a_redrive_and_its_run_pauses_the_run() {
    let test = TestDatabase::migrated();
    bury(&test, 1);
    let line = "dlq redrive orders --validate --exec true --yes";
    let output = interrupted(&test, "INSERT ON redrive.redrive_runs", "INT", line);
    output.tells("run 1 is paused");
    assert_eq!(letters_in(&test.open(), "orders", LetterState::Open), 1);
}

#[test]
fn an_interrupted_check_or_dry_run_with_exec_says_that_nothing_changed() {
    let test = TestDatabase::migrated();
    bury(&test, 2);
    for words in [
        ["redrive", "orders", "--validate"].as_slice(),
        &["validate", "orders"],
        &["edit", "orders", "--dry-run"],
    ] {
        let begun = TempFile::of("");
        let exec = format!("echo begun > {begun}; sleep 600");
        let line = [&["dlq"][..], words, &["--exec", &exec]].concat();
        let process = Process::start(program(&test).args(line));
        wait_until("the command to begin", SOON, || !begun.bytes().is_empty());
        process.signal("INT");
        process
            .exits_with(1)
            .tells("stopped by a signal; nothing was changed");
    }
}

#[test]
fn an_interrupted_change_of_groups_says_how_far_it_came() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.dead_letters
             (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 'orders', 'order', 'rejected', class, '', '{}', now() FROM unnest('{A,B,C}'::text[]) class");
    let groups: Vec<i64> = client.column("SELECT id FROM redrive.groups ORDER BY id", &[]);
    let second = groups[1];
    let hold = format!("SELECT FROM redrive.groups WHERE id = {second} FOR UPDATE");
    let mut holder = test.begins(&hold);
    let line = format!("dlq groups ack {}", listed(&groups));
    let process = Process::start(program(&test).args(words(&line)));
    blocked(&mut client, 1);
    process.signal("INT");
    holder.sql("ROLLBACK");
    process
        .exits_with(1)
        .tells("stopped: 2 of 3 groups acknowledged");
}

#[test]
fn an_interrupted_capture_keeps_the_lines_that_had_come() {
    let (test, mut client) = TestDatabase::with_client();
    let (stdin, mut lines) = io::pipe().unwrap();
    let mut command = program(&test);
    let command = command.args(["dlq", "capture", "--file", "-"]);
    let process = Process::start(command.stdin(stdin));
    let line = |position: u32| json!({"source": "s", "position": position.to_string(), "queue": "q", "kind": "k", "payload": 1});
    write!(lines, "{}\n{}\n{{\"source\"", line(1), line(2)).unwrap();
    // The input does not end, and its third line is not complete.
    client.reaches("dead_letters", 2);
    process.signal("TERM");
    process
        .exits_with(1)
        .prints("2 failures captured, 0 already known\n")
        .tells("stopped by a signal");
}

#[test]
fn an_interrupted_cancellation_of_jobs_names_the_letters_to_send_back() {
    for by_id in [false, true] {
        let (test, queue) = TestDatabase::with_orders();
        let jobs = queue.enqueue_many(&Order::up_to(1200)).unwrap();
        let hold = "UPDATE redrive.jobs SET kind = 'held' WHERE id = $1";
        test.client().change(hold, &[&jobs[700].get()]);
        let ids: Vec<i64> = jobs.iter().map(|id| id.get()).collect();
        let cancel = match by_id {
            true => format!("job cancel {}", listed(&ids)),
            false => "job cancel orders --yes".to_owned(),
        };
        let output = interrupted(&test, "INSERT ON redrive.dead_letters", "INT", &cancel);
        let undo = undo(&output, "1,000 of 1,200 jobs cancelled", "redrive");
        assert_eq!(in_state(&queue, LetterState::Open), 1000);
        test.run(format!("{undo} --no-wait"));
        let waiting = queue.database().admin().jobs().count(&JobFilter::new());
        assert_eq!(waiting.unwrap().ready, 1200);
    }
}
