//! Commands on jobs: enqueue and work. `live_jobs` has those on jobs that wait.

use std::io::{ErrorKind, Write as _};

use redrive_tests::prelude::*;

use super::{payloads, ready};
use crate::worker_process::program;

#[test]
fn a_bad_line_is_reported_and_rejects_or_skips_as_asked() {
    let (db, queue) = TestDatabase::with_orders();
    let file = payloads(80_000, Some((70_001, "{\"order\": ")));
    let enqueue = format!("enqueue orders order.placed --file {file}");

    db.fails(2, &enqueue).tells("line 70001 of");
    assert!(queue.is_drained().unwrap(), "all or nothing");

    db.fails(1, format!("{enqueue} --skip-bad-lines --json"))
        .tells("line 70001: ")
        .holds(&json!({"jobs": 79_999}));
    assert_eq!(ready(&queue), 79_999);
}

#[test]
fn a_worker_takes_its_class_version_backoff_and_flood_guard() {
    let db = TestDatabase::migrated();
    for _ in 0..2 {
        db.run("enqueue w k 1 --max-attempts 2");
    }
    let command = "echo redrive-error-class: SchemaError >&2; echo field missing >&2; exit 1";
    let work = format!("work w --exec '{command}' --drain --slots 1");
    db.run(format!(
        "{work} --backoff fixed:10ms --app-version 1.4.2 --flood-guard 1/1h"
    ));
    let letter = &db.open().listed(&LetterFilter::new())[0];
    assert_eq!(&*letter.error_class, "SchemaError");
    assert_eq!(&*letter.error_message, "field missing");
    assert_eq!(letter.version.as_deref(), Some("1.4.2"));
    assert_eq!(letter.attempts, 2);
    assert_eq!(db.client().count("breakers"), 1);
}

#[test]
fn a_drain_leaves_jobs_that_no_worker_handles() {
    let db = TestDatabase::migrated();
    db.run("enqueue w mine 1");
    db.run("enqueue w other 1");
    db.run("enqueue w other 2 --delay 1h");
    let work = "work w --exec true --kind mine --drain";
    db.run(work)
        .tells("done 1")
        .tells("left 2 jobs of kinds that no worker handles");
    db.run(format!("{work} --json")).holds(&json!({"left": 2}));
}

#[test]
fn a_drain_says_what_it_waits_for() {
    let db = TestDatabase::migrated();
    db.run("enqueue w k 1 --delay 1h");
    db.run("queue pause w --reason x");
    db.run("breaker open queue:w");
    let said = TempFile::of("");
    let mut work = program(db.url());
    work.args(["work", "w", "--exec", "true", "--drain"])
        .stderr(fs::File::create(said.to_string()).expect("a file"));
    let mut work = Process::start_aloud(&mut work);
    let waits = "waiting for queue w (0 ready, 1 delayed, 0 leased, paused), breaker queue:w";
    wait_until(waits, SOON, || {
        String::from_utf8_lossy(&said.bytes()).contains(waits)
    });
    db.run("job run-now w --yes");
    db.run("queue resume w");
    db.run("breaker close queue:w");
    assert_eq!(work.ends().code(), Some(0));
}

#[test]
fn a_command_that_exceeds_its_deadline_is_killed() {
    let db = TestDatabase::migrated();
    db.run("enqueue w k 1 --max-attempts 1");
    let command = r#"trap "" TERM; sleep 300"#;
    db.run(format!(
        "work w --exec '{command}' --deadline 300ms --drain"
    ));
    let letter = &db.open().listed(&LetterFilter::new())[0];
    assert_eq!(letter.cause, DeathCause::Timeout);
}

#[test]
fn a_list_of_an_unknown_queue_names_those_that_exist() {
    let db = TestDatabase::migrated();
    db.run("enqueue q k [1]");
    for list in ["stats", "queue limits", "job list", "dlq groups"] {
        db.fails(1, format!("{list} nobody"))
            .tells("there is no queue `nobody`; there is `q`");
    }
    // A letter that was redriven into another queue may have its failure group in the first one.
    db.sql("SELECT redrive.capture('s', '1', 'orders', 'order', '{}')");
    db.sql(
        "UPDATE redrive.dead_letters SET queue = 'moved', state = 'recovered', retry_after = NULL",
    );
    let known = db.open().admin().queue_names("moved", 9).unwrap();
    assert_eq!(known.names, ["moved", "orders", "q"]);
    assert!(known.is_known);
}

#[test]
fn an_enqueue_with_a_key_prints_the_job_that_has_it_and_the_exit_code_shows_it() {
    let db = TestDatabase::migrated();
    let enqueue = |options: &str| format!("enqueue orders order [1] --unique {options}");
    let first = db.run(enqueue("today --until-started")).out;
    let id: i64 = first.trim().parse().unwrap();
    db.fails(1, enqueue("today"))
        .prints(&first)
        .tells("nothing was enqueued");
    db.fails(1, enqueue("today --json"))
        .holds(&json!({"stored": false, "unique": "today", "id": id}));
    let other = "enqueue orders other {} --unique today --replace payload --json";
    db.fails(1, other)
        .holds(&json!({"id": id, "kind": null}))
        .tells("is of another kind");
    let replace = enqueue("today --replace both --delay 1h");
    db.run(&replace).prints(&first).tells("was changed");
    assert_eq!(ready(&db.queue("orders")), 0, "it is delayed");
    db.run(replace + " --json")
        .holds(&json!({"stored": false, "replaced": true}));

    let hourly = enqueue("7 --unique-window 1h");
    let windowed = db.run(&hourly).out;
    db.run(format!("job cancel {} --yes", windowed.trim()));
    db.fails(1, &hourly)
        .prints(&windowed)
        .tells("opened its window");
    db.run(enqueue("7"));
}

/// Enqueues a payload from stdin in a process.
fn enqueue_from_stdin(db: &TestDatabase, payload: &[u8]) -> Output {
    let mut child = program(db.url())
        .args(["enqueue", "orders", "order.placed", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the command");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that refuses the payload may not read it to the end.
    if let Err(error) = stdin.write_all(payload) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    drop(stdin);
    child.wait_with_output().expect("the command")
}

#[test]
fn a_payload_on_stdin_that_is_too_large_is_refused_with_the_limit() {
    let (db, queue) = TestDatabase::with_orders();
    let text = |length: usize| format!("\"{}\"\n", "x".repeat(length - 2));
    for length in [1024 * 1024 + 1, 3_000_000] {
        let output = enqueue_from_stdin(&db, text(length).as_bytes());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{length}: {err}");
        has(&err, "the limit is 1");
        lacks(&err, "not JSON");
    }
    assert_eq!(ready(&queue), 0);
    let output = enqueue_from_stdin(&db, text(1024 * 1024).as_bytes());
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(ready(&queue), 1);
}

#[test]
fn a_job_reaches_the_command_and_a_late_one_never_runs() {
    let db = TestDatabase::migrated();
    db.run("enqueue w order 1 --header trace=a=b --header tenant=north");
    let late = db.run("enqueue w order 2 --expires-in 1h").out;
    let late = late.trim();
    db.run(format!("job show {late}"))
        .shows("header      redrive-expires-in-ms: 3600000");
    let age = "UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '2 hours'";
    db.client().sql(age);
    let check = r#"test "$REDRIVE_HEADERS" = "{\"tenant\":\"north\",\"trace\":\"a=b\"}" && test "$(cat)" = 1 &&
        test "$REDRIVE_KIND $REDRIVE_ATTEMPT/$REDRIVE_MAX_ATTEMPTS" = "order 1/5" &&
        case $REDRIVE_ENQUEUED_AT in 20*Z) ;; *) exit 1;; esac"#;
    db.run(format!("work w --exec '{check}' --drain"));

    let letters = db.open().listed(&LetterFilter::new());
    let [letter] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(letter.id.to_string().as_str(), late);
    assert_eq!(letter.cause, DeathCause::Expired);
}

#[test]
fn a_job_can_start_at_a_time_and_a_byte_order_mark_is_no_part_of_a_payload() {
    let (db, queue) = TestDatabase::with_orders();
    db.run("enqueue orders k 1 --at 2001-02-03");
    assert_eq!(ready(&queue), 1, "in the past");
    let asked =
        "SELECT to_char((now() AT TIME ZONE 'UTC') + interval '2 hours', 'YYYY-MM-DD\"T\"HH24:MI')";
    let soon: String = db.client().ask(asked, &[]);
    db.run(format!("enqueue orders k 1 --at {soon}"));
    let waits =
        "jobs_delayed WHERE run_at BETWEEN now() + interval '1 h' AND now() + interval '2 h'";
    assert_eq!(db.client().count(waits), 1);
    let output = enqueue_from_stdin(&db, "\u{feff}{\"a\": 1}\n".as_bytes());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ready(&queue), 2);
}

#[test]
fn one_command_works_on_several_queues() {
    let db = TestDatabase::migrated();
    for job in ["orders k 1", "mail k 2", "mail k 3"] {
        db.run(format!("enqueue {job}"));
    }
    db.run("work orders mail empty --slots 1 --exec true --drain --json")
        .holds(&json!({"done": 3}));
}
