//! A bulk command that is interrupted between two batches prints what was done and how to undo it.

use std::process::{Child, Command, Output, Stdio};

use postgres::Client;
use redrive::dlq::LetterState;
use redrive_tests::{SOON, Sql, TestDatabase, letters_in, ran, wait_until};

use super::reopen::add_letters;

/// The advisory lock that holds the second batch.
const HELD: i64 = 15_092_026;

/// Starts a command as a process, lets it finish its first batch, sends it a signal within the second
/// one, and returns its output.
fn interrupted(test: &TestDatabase, change: &str, signal: &str, arguments: &[&str]) -> Output {
    let mut holder = test.client();
    let row = if change == "INSERT" { "NEW" } else { "OLD" };
    let gate = format!(
        "CREATE SCHEMA IF NOT EXISTS gate;
         CREATE OR REPLACE FUNCTION gate.hold() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM pg_advisory_xact_lock({HELD});
             RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
         END $$;
         CREATE TRIGGER gate BEFORE {change} ON redrive.dead_letters
             FOR EACH ROW WHEN ({row}.kind = 'held') EXECUTE FUNCTION gate.hold()"
    );
    holder.sql(&gate);
    let lock = "SELECT pg_advisory_lock($1)";
    holder.execute(lock, &[&HELD]).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_test_cli"))
        .args(["--database-url", test.url()])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a command");
    let child = Killed(Some(child));
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    let mut client = test.client();
    wait_until("the second batch", SOON, || {
        client.query_one(waits, &[]).unwrap().get(0)
    });
    let sent = Command::new("kill").args([signal, &child.id()]).status();
    assert!(sent.expect("send a signal").success());
    holder
        .execute("SELECT pg_advisory_unlock($1)", &[&HELD])
        .unwrap();
    let output = child.end();
    holder.sql("DROP TRIGGER gate ON redrive.dead_letters");
    output
}

/// A process that is killed at the end of the test at the latest.
struct Killed(Option<Child>);

impl Killed {
    fn id(&self) -> String {
        self.0.as_ref().expect("a process").id().to_string()
    }

    fn end(mut self) -> Output {
        let child = self.0.take().expect("a process");
        child.wait_with_output().expect("wait for its end")
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended already.
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Marks the letter at this place, in the order of ids, as the one that waits at the gate.
fn hold_at(client: &mut Client, place: i64) {
    let hold = "UPDATE redrive.dead_letters SET kind = 'held' WHERE id = \
                (SELECT id FROM redrive.dead_letters ORDER BY id OFFSET $1 LIMIT 1)";
    client.execute(hold, &[&(place - 1)]).unwrap();
}

/// Returns the message about the stop, and the words of the command that undoes the operation.
#[track_caller]
fn stop_message(output: &Output) -> (String, Vec<String>) {
    let err = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    let line = err.lines().find(|line| line.starts_with("stopped: "));
    let line = line.unwrap_or_else(|| panic!("{err}")).to_owned();
    let undo = line.split_once("undo: redrive ");
    let undo = undo.map(|(_, undo)| undo.split(' ').map(str::to_owned).collect());
    (line, undo.unwrap_or_default())
}

#[track_caller]
fn run(test: &TestDatabase, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ran(test, &words).exits_with(0);
}

#[test]
fn an_interrupted_discard_and_an_interrupted_reopening_can_be_undone() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    add_letters(&mut client, "orders", 1200);
    hold_at(&mut client, 700);
    let discard = ["dlq", "discard", "orders", "--reason", "test data", "--yes"];
    let (line, undo) = stop_message(&interrupted(&test, "UPDATE", "-INT", &discard));
    assert!(
        line.starts_with(
            "stopped: 1,000 of 1,200 letters discarded; undo: redrive dlq reopen audit="
        ),
        "{line}"
    );
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 1000);

    hold_at(&mut client, 200);
    let words: Vec<&str> = undo.iter().map(String::as_str).collect();
    let (line, again) = stop_message(&interrupted(&test, "UPDATE", "-TERM", &words));
    assert!(
        line.starts_with(
            "stopped: 500 of 1,000 letters reopened; undo: redrive dlq discard audit="
        ),
        "{line}"
    );
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 500);
    run(&test, &again);
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 1000);
    ran(&test, &["dlq", "reopen", "orders", "--yes"]).exits_with(0);
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 1200);
}

#[test]
fn an_interrupted_edit_is_undone_as_a_whole() {
    let (test, mut client) = TestDatabase::with_client();
    add_letters(&mut client, "orders", 250);
    hold_at(&mut client, 150);
    let edited = |client: &mut Client| -> i64 {
        let asked = "SELECT count(*) FROM redrive.dead_letters WHERE payload::jsonb ? 'currency'";
        client.query_one(asked, &[]).unwrap().get(0)
    };
    let edit = [
        "dlq",
        "edit",
        "orders",
        "--merge",
        r#"{"currency": "EUR"}"#,
        "--yes",
    ];
    let (line, undo) = stop_message(&interrupted(&test, "UPDATE", "-INT", &edit));
    assert!(
        line.starts_with("stopped: 200 of 250 letters edited; undo: redrive dlq edit audit="),
        "{line}"
    );
    assert_eq!(edited(&mut client), 200);

    let dry: Vec<&str> = undo[..undo.len() - 1].iter().map(String::as_str).collect();
    let shown = ran(&test, &dry).exits_with(0);
    assert!(shown.out.contains("200 letters would get"), "{}", shown.out);
    assert_eq!(edited(&mut client), 200, "a dry run changes nothing");
    run(&test, &undo);
    assert_eq!(edited(&mut client), 0);
    let records = "SELECT count(*), count(*) FILTER (WHERE about ? 'batch_of') FROM redrive.audit \
                   WHERE verb = 'edit' AND about ->> 'how' = 'restore'";
    let row = client.query_one(records, &[]).unwrap();
    assert_eq!((row.get(0), row.get(1)), (2_i64, 1_i64));
}

#[test]
fn an_interrupted_cancellation_of_jobs_names_the_letters_to_send_back() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let jobs = queue
        .enqueue_many(&redrive_tests::Order::up_to(1200))
        .unwrap();
    let hold = "UPDATE redrive.jobs SET kind = 'held' WHERE id = $1";
    let mut client = test.client();
    client.execute(hold, &[&jobs[700].get()]).unwrap();
    let cancel = ["job", "cancel", "orders", "--yes"];
    let (line, undo) = stop_message(&interrupted(&test, "INSERT", "-INT", &cancel));
    assert!(
        line.starts_with(
            "stopped: 1,000 of 1,200 jobs cancelled; undo: redrive dlq redrive audit="
        ),
        "{line}"
    );
    let letters = redrive::dlq::LetterFilter::new();
    let db = queue.database();
    assert_eq!(db.dlq().count(&letters).unwrap().letters, 1000);
    let mut undo: Vec<&str> = undo.iter().map(String::as_str).collect();
    undo.push("--no-wait");
    ran(&test, &undo).exits_with(0);
    let waiting = db.admin().jobs().count(&redrive::admin::JobFilter::new());
    assert_eq!(waiting.unwrap().ready, 1200);
}
