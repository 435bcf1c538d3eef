//! Commands on jobs: enqueue, work, show, cancel and set-priority.

use super::{Payloads, ready};

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

use redrive::dlq::{DeathCause, LetterFilter};
use redrive_tests::TestDatabase;
use serde_json::Value;

use super::redrive;

#[test]
fn a_bad_line_is_reported_and_rejects_or_skips_as_asked() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let payloads = Payloads::new(&db, 80_000, Some((70_001, "{\"order\": ")));
    let enqueue = [
        "enqueue",
        "orders",
        "order.placed",
        "--file",
        payloads.path(),
    ];

    let refused = redrive(&db, &enqueue).exits_with(2);
    assert!(refused.err.contains("line 70001 of"), "{}", refused.err);
    assert!(queue.is_drained().unwrap(), "all or nothing");

    let skipped = redrive(
        &db,
        &[&enqueue[..], &["--skip-bad-lines", "--json"]].concat(),
    )
    .exits_with(1);
    assert!(skipped.err.contains("line 70001: "), "{}", skipped.err);
    assert_eq!(skipped.lines()[0]["jobs"], 79_999);
    assert_eq!(ready(&queue), 79_999);
}

#[test]
fn the_exit_status_of_a_command_decides_the_outcome_of_its_job() {
    let db = TestDatabase::migrated();
    for (kind, attempts) in [
        ("done", "5"),
        ("rejected", "5"),
        ("failing", "1"),
        ("killed", "1"),
    ] {
        redrive(
            &db,
            &[
                "enqueue",
                "w",
                kind,
                "{\"a\": 1}",
                "--max-attempts",
                attempts,
            ],
        )
        .exits_with(0);
    }
    let command = r#"test "$(cat)" = '{"a": 1}' || exit 3
        case $REDRIVE_KIND in
            rejected) echo "bad currency" >&2; exit 65;;
            failing) exit 1;;
            killed) kill -9 $$;;
        esac"#;
    let worked = redrive(&db, &["work", "w", "--exec", command, "--drain", "--json"]).exits_with(0);
    assert_eq!(
        (&worked.lines()[0]["done"], &worked.lines()[0]["dead"]),
        (&1.into(), &3.into())
    );

    let letters = db
        .open()
        .dlq()
        .list(&LetterFilter::new().queue("w"))
        .unwrap();
    let mut died: Vec<_> = letters
        .iter()
        .map(|letter| (&*letter.kind, letter.cause, &*letter.error_class))
        .collect();
    died.sort_unstable_by_key(|(kind, ..)| *kind);
    assert_eq!(
        died,
        [
            ("failing", DeathCause::Exhausted, "exit:1"),
            ("killed", DeathCause::Exhausted, "signal:9"),
            ("rejected", DeathCause::Rejected, "exit:65"),
        ]
    );
    assert!(
        letters
            .iter()
            .any(|letter| letter.error_message == "bad currency")
    );
}

#[test]
fn a_worker_names_its_class_version_and_backoff() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "w", "k", "1", "--max-attempts", "2"]).exits_with(0);
    let command = "echo 'redrive-error-class: SchemaError' >&2; echo 'field missing' >&2; exit 1";
    let work = |more: &[&str]| {
        let args = [&["work", "w", "--exec", command, "--drain"], more].concat();
        redrive(&db, &args)
    };
    for wrong in [
        ["--backoff", "5s"],
        ["--flood-guard", "100"],
        ["--flood-guard", "0/1m"],
    ] {
        work(&wrong).exits_with(2);
    }
    work(&[
        "--backoff",
        "fixed:10ms",
        "--app-version",
        "1.4.2",
        "--flood-guard",
        "100/1m",
    ])
    .exits_with(0);
    let letters = db
        .open()
        .dlq()
        .list(&LetterFilter::new().queue("w"))
        .unwrap();
    let letter = &letters[0];
    assert_eq!(
        (
            &*letter.error_class,
            &*letter.error_message,
            letter.version.as_deref()
        ),
        ("SchemaError", "field missing", Some("1.4.2"))
    );
    assert_eq!(letter.attempts, 2);
}

#[test]
fn a_flood_guard_of_a_command_opens_the_breaker() {
    let db = TestDatabase::migrated();
    let queue = db.queue("w");
    for _ in 0..2 {
        redrive(&db, &["enqueue", "w", "k", "1", "--max-attempts", "1"]).exits_with(0);
    }
    redrive(
        &db,
        &[
            "work",
            "w",
            "--exec",
            "exit 1",
            "--drain",
            "--slots",
            "1",
            "--flood-guard",
            "1/1h",
        ],
    )
    .exits_with(0);
    let breakers = queue.database().admin().breakers().unwrap();
    assert_eq!(breakers.len(), 1, "{breakers:?}");
}

#[test]
fn a_drain_leaves_jobs_that_no_worker_handles() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "w", "mine", "1"]).exits_with(0);
    redrive(&db, &["enqueue", "w", "other", "1"]).exits_with(0);
    redrive(&db, &["enqueue", "w", "other", "2", "--delay", "1h"]).exits_with(0);
    let work = |more: &[&str]| {
        let args = [
            &["work", "w", "--exec", "true", "--kind", "mine", "--drain"],
            more,
        ]
        .concat();
        redrive(&db, &args).exits_with(0)
    };
    let done = work(&[]);
    assert!(
        done.err.contains("done 1")
            && done
                .err
                .contains("left 2 jobs of kinds that no worker handles"),
        "{}",
        done.err
    );
    assert_eq!(work(&["--json"]).lines()[0]["left"], 2);
}

#[test]
fn a_command_that_exceeds_its_deadline_is_killed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "w", "k", "1", "--max-attempts", "1"]).exits_with(0);
    let slow = [
        "work",
        "w",
        "--exec",
        "trap '' TERM; sleep 300",
        "--deadline",
        "300ms",
        "--drain",
    ];
    redrive(&db, &slow).exits_with(0);
    assert_eq!(
        db.open()
            .dlq()
            .list(&LetterFilter::new().queue("w"))
            .unwrap()[0]
            .cause,
        DeathCause::Timeout
    );
}

#[test]
fn jobs_show_cancel_and_set_priority_work_on_live_jobs() {
    let db = TestDatabase::migrated();
    let added = redrive(
        &db,
        &["enqueue", "q", "k", "[1]", "--delay", "1h", "--json"],
    )
    .exits_with(0);
    let id = added.lines()[0]["id"].to_string();
    redrive(&db, &["job", "set", &id, "--priority", "-7"]).exits_with(0);
    let shown = redrive(&db, &["job", "show", &id, "--json"])
        .exits_with(0)
        .lines()
        .remove(0);
    assert_eq!(
        (&shown["state"], &shown["priority"]),
        (&"delayed".into(), &(-7).into())
    );
    redrive(&db, &["job", "cancel", &id]).exits_with(0);
    let again = redrive(&db, &["job", "cancel", &id]).exits_with(1);
    assert!(again.err.contains("dlq show"), "{}", again.err);
    redrive(&db, &["job", "show", "424242"]).exits_with(1);
    redrive(&db, &["stats", "nobody"]).exits_with(1);
}

#[test]
fn a_unique_job_is_stored_once_and_the_exit_code_shows_it() {
    let db = TestDatabase::migrated();
    let enqueue = ["enqueue", "orders", "order", "{}", "--unique", "today"];
    let first = redrive(&db, &enqueue).exits_with(0);
    let again = redrive(&db, &enqueue).exits_with(1);
    assert_eq!(again.out, first.out, "the id of the one that has the key");
    assert!(again.err.contains("nothing was enqueued"), "{}", again.err);
    let mut json = enqueue.to_vec();
    json.push("--json");
    let output = redrive(&db, &json).exits_with(1).lines();
    assert_eq!(
        (&output[0]["stored"], &output[0]["unique"]),
        (&Value::Bool(false), &Value::from("today"))
    );
    assert_eq!(output[0]["id"].to_string(), first.out.trim());
    redrive(&db, &["enqueue", "orders", "order", "{}", "--unique", ""]).exits_with(2);
    assert_eq!(ready(&db.queue("orders")), 1);
}

#[test]
fn a_window_keeps_out_a_second_job_after_the_first_has_ended() {
    let db = TestDatabase::migrated();
    let enqueue = ["enqueue", "orders", "order", "{}", "--unique", "7"];
    let hourly = [&enqueue[..], &["--unique-window", "1h"]].concat();
    let first = redrive(&db, &hourly).exits_with(0);
    redrive(&db, &["job", "cancel", first.out.trim(), "--yes"]).exits_with(0);
    let again = redrive(&db, &hourly).exits_with(1);
    assert_eq!(again.out, first.out);
    assert!(again.err.contains("opened its window"), "{}", again.err);
    redrive(&db, &enqueue).exits_with(0);
    for bad in ["0s", "3651d", "-1s"] {
        let window = format!("--unique-window={bad}");
        redrive(&db, &[&enqueue[..], &[&window]].concat()).exits_with(2);
    }
    let keyless = ["enqueue", "orders", "order", "{}", "--unique-window", "1h"];
    redrive(&db, &keyless).exits_with(2);
}

#[test]
fn an_enqueue_replaces_the_waiting_job_with_its_key() {
    fn enqueue<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["enqueue", "orders", "order", "[1]"], more].concat()
    }
    let db = TestDatabase::migrated();
    let key = ["--unique", "today", "--until-started"];
    let first = redrive(&db, &enqueue(&key)).exits_with(0);
    let mut replace = enqueue(&["--unique", "today", "--replace", "both", "--delay", "1h"]);
    let again = redrive(&db, &replace).exits_with(0);
    assert_eq!(again.out, first.out);
    assert!(again.err.contains("was changed"), "{}", again.err);
    assert_eq!(ready(&db.queue("orders")), 0, "it is delayed");
    replace.push("--json");
    let output = redrive(&db, &replace).exits_with(0).lines();
    let flags = (&output[0]["stored"], &output[0]["replaced"]);
    assert_eq!(flags, (&Value::Bool(false), &Value::Bool(true)));
    for bad in [&["--replace", "both"][..], &["--until-started"]] {
        redrive(&db, &enqueue(bad)).exits_with(2);
    }
    redrive(&db, &enqueue(&["--unique", "today", "--replace", "all"])).exits_with(2);
}

/// Enqueues a payload from stdin in a process.
fn enqueue_from_stdin(db: &TestDatabase, payload: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_test_cli"))
        .args(["enqueue", "orders", "order.placed", "-"])
        .env("DATABASE_URL", db.url())
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
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let text = |length: usize| format!("\"{}\"\n", "x".repeat(length - 2));
    for length in [1024 * 1024 + 1, 1_100_000, 3_000_000] {
        let output = enqueue_from_stdin(&db, text(length).as_bytes());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{length}: {err}");
        assert!(err.contains("the limit is 1"), "{length}: {err}");
        assert!(!err.contains("not JSON"), "{length}: {err}");
    }
    assert_eq!(ready(&queue), 0);
    let output = enqueue_from_stdin(&db, text(1024 * 1024).as_bytes());
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(ready(&queue), 1);
}

#[test]
fn headers_reach_the_command_and_a_late_job_never_runs() {
    let db = TestDatabase::migrated();
    let enqueue = |payload: &str, options: &[&str]| {
        let command = ["enqueue", "w", "order", payload];
        redrive(&db, &[&command, options].concat())
    };
    let header = ["--header", "trace=a=b", "--header", "tenant=north"];
    enqueue("1", &header).exits_with(0);
    let late = enqueue("2", &["--expires-in", "1h"]).exits_with(0);
    let late = late.out.trim();
    let shown = redrive(&db, &["job", "show", late]).exits_with(0);
    assert!(
        shown
            .out
            .contains("header      redrive-expires-in-ms: 3600000"),
        "{}",
        shown.out
    );
    let age = "UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '2 hours'";
    db.client().execute(age, &[]).unwrap();
    let check = r#"test "$REDRIVE_HEADERS" = '{"tenant":"north","trace":"a=b"}'"#;
    redrive(&db, &["work", "w", "--exec", check, "--drain"]).exits_with(0);

    let letters = db.open().dlq().list(&LetterFilter::new()).unwrap();
    let [letter] = &letters[..] else {
        panic!("{letters:?}")
    };
    assert_eq!(
        (letter.id.to_string().as_str(), letter.cause),
        (late, DeathCause::Expired)
    );
    for (options, why) in [
        (&["--header", "trace"][..], "NAME=VALUE"),
        (&["--header", "redrive-x=1"], "reserved"),
        (&["--expires-in", "0s"], "1 ms to ten years"),
        (&["--delay", "1h", "--expires-in", "1h"], "before its delay"),
    ] {
        let refused = enqueue("3", options).exits_with(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
}

#[test]
fn a_job_can_start_at_a_time_and_a_byte_order_mark_is_no_part_of_a_payload() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let at = |time: &str| redrive(&db, &["enqueue", "orders", "k", "1", "--at", time]);
    at("2001-02-03T04:05:06Z").exits_with(0);
    assert_eq!(ready(&queue), 1, "in the past");
    let far = at("9000-01-01T00:00:00Z").exits_with(2);
    assert!(far.err.contains("the limit is 3650 days"), "{}", far.err);
    at("tomorrow").exits_with(2);
    let output = enqueue_from_stdin(&db, "\u{feff}{\"a\": 1}\n".as_bytes());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(ready(&queue), 2);
}

#[test]
fn one_command_works_on_several_queues() {
    let db = TestDatabase::migrated();
    let queues = ["orders", "mail", "empty"];
    for (queue, payload) in [("orders", "1"), ("mail", "2"), ("mail", "3")] {
        redrive(&db, &["enqueue", queue, "k", payload]).exits_with(0);
    }
    let of = |options: &[&str]| redrive(&db, &[&["work"], &queues[..], options].concat());
    let worked = of(&["--exec", "true", "--drain", "--slots", "1", "--json"]).exits_with(0);
    assert_eq!(worked.lines()[0]["done"], 3);

    // What nothing handles is left, wherever it is.
    redrive(&db, &["enqueue", "mail", "other", "4"]).exits_with(0);
    let worked = of(&["--exec", "true", "--drain", "--kind", "k", "--json"]).exits_with(0);
    assert_eq!(worked.lines()[0]["left"], 1);
    let refused = of(&["bad\n", "--exec", "true", "--drain"]).exits_with(2);
    assert!(refused.err.contains("queue"), "{}", refused.err);
}
