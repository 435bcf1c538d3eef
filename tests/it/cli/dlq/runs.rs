//! Commands on redrive runs.

use redrive_tests::TestDatabase;
use serde_json::json;

use super::super::{letters, ready, redrive};

#[test]
fn runs_can_be_started_listed_shown_paused_and_cancelled() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 12);
    redrive(&db, &["dlq", "runs", "list"]).exits_with(1);
    redrive(&db, &["dlq", "runs", "show", "1"]).exits_with(1);

    // A dry run shows the letters by group and warns if no worker would claim them.
    let dry = redrive(&db, &["dlq", "redrive", "orders", "--to", "nowhere"]).exits_with(0);
    assert!(
        dry.err.contains("no live worker of queue `nowhere`"),
        "{}",
        dry.err
    );
    assert!(dry.out.contains("GROUP") && dry.out.contains("--to nowhere --yes"));
    let dry = redrive(&db, &["dlq", "redrive", "orders", "--json"]).exits_with(0);
    let line = dry.lines().remove(0);
    assert_eq!(
        (&line["groups"][0]["letters"], &line["unserved"][0]["queue"]),
        (&12.into(), &"orders".into())
    );

    let detach = [
        "dlq", "redrive", "orders", "--detach", "--canary", "3", "--yes",
    ];
    redrive(&db, &detach).exits_with(0);
    let listed = redrive(&db, &["dlq", "runs", "list", "--json"]).exits_with(0);
    let run = listed.lines().remove(0);
    assert_eq!(
        (&run["state"], &run["letters"], &run["sent"], &run["canary"]),
        (&"running".into(), &12.into(), &0.into(), &3.into())
    );
    let id = run["id"].to_string();
    assert!(
        redrive(&db, &["dlq", "runs", "list"])
            .exits_with(0)
            .out
            .contains("running")
    );
    redrive(&db, &["dlq", "runs", "pause", &id]).exits_with(0);
    let again = redrive(&db, &["dlq", "runs", "pause", &id]).exits_with(1);
    assert!(again.err.contains("is paused"), "{}", again.err);
    let shown = redrive(&db, &["dlq", "runs", "show", &id]).exits_with(0);
    assert!(shown.out.contains("after a canary of 3"), "{}", shown.out);
    redrive(&db, &["dlq", "runs", "resume", &id, "--detach"]).exits_with(0);
    redrive(&db, &["dlq", "runs", "cancel", &id, "--reason", "tests"]).exits_with(0);
    redrive(&db, &["dlq", "runs", "resume", &id]).exits_with(1);
    assert_eq!(ready(&queue), 0);

    let went = redrive(&db, &["dlq", "redrive", "orders", "--unthrottled", "--yes"]).exits_with(0);
    assert!(
        went.out
            .contains("12 sent, 0 recovered, 0 died again, 12 still running"),
        "{}",
        went.out
    );
    assert_eq!(ready(&queue), 12);
    for wrong in [
        &["dlq", "redrive", "orders", "--force", "--yes"][..],
        &["dlq", "redrive", "orders", "--rate", "0", "--yes"],
        &["dlq", "redrive", "orders", "--rate", "5", "--unthrottled"],
        &["dlq", "redrive", "--id", "1", "--canary", "5"],
        &["dlq", "redrive", "orders", "--to", " ", "--yes"],
        &["dlq", "runs", "show", "x"],
        &["dlq", "redrive", "orders", "--tolerate", "101%"],
        &["dlq", "redrive", "orders", "--sample", "0"],
        &["dlq", "redrive", "orders", "--canary", "5", "--no-halt"],
        &["dlq", "redrive", "--id", "1", "--no-halt"],
    ] {
        redrive(&db, wrong).exits_with(2);
    }
}

#[test]
fn the_audit_shows_a_run_on_one_line() {
    let db = TestDatabase::migrated();
    let records = r#"
        INSERT INTO redrive.audit (verb, person, reason, filter, letters, about) VALUES
            ('redrive', 'maria', 'INC-42', '{"group": [5]}', 100, '{"run": 4}'),
            ('discard', 'maria', 'old', '{"queue": "orders", "state": ["open"]}', 7, NULL),
            ('redrive', 'maria', 'INC-42', '{"group": [5]}', 1000, '{"run": 4}'),
            ('redrive', 'maria', 'INC-43', '{"group": [6]}', 1, '{"run": 5}'),
            ('halt_run', 'maria', 'too many deaths', '{"group": [5]}', 0, '{"run": 4}')"#;
    db.client().batch_execute(records).expect("records");
    let shown = redrive(&db, &["audit"]).exits_with(0).out;
    let lines: Vec<Vec<&str>> = shown
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().skip(2).collect())
        .collect();
    assert_eq!(
        lines,
        [
            vec![
                "halt_run", "0", "maria", "run=4", "group=5", "too", "many", "deaths"
            ],
            vec!["redrive", "1", "maria", "run=5", "group=6", "INC-43"],
            vec!["redrive", "1,100", "maria", "run=4", "group=5", "INC-42"],
            vec!["discard", "7", "maria", "queue=orders", "state=open", "old"],
        ],
        "{shown}"
    );
    let json = redrive(&db, &["audit", "--json"]).exits_with(0).lines();
    assert_eq!(json.len(), 5);
}

#[test]
fn a_second_run_over_the_same_letters_is_warned_about() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 5);
    let some = [
        "dlq", "redrive", "orders", "--limit", "3", "--detach", "--yes",
    ];
    let first = redrive(&db, &some).exits_with(0);
    assert!(!first.err.contains("has not ended"), "{}", first.err);
    let warning = "warning: run 1 has not ended and will send 3 letters of these too";
    let dry = redrive(&db, &["dlq", "redrive", "orders", "--json"]).exits_with(0);
    assert!(dry.err.contains(warning), "{}", dry.err);
    assert_eq!(
        dry.lines()[0]["overlapping"],
        json!([{"run": 1, "letters": 3}])
    );
    let second = redrive(&db, &["dlq", "redrive", "orders", "--detach", "--yes"]).exits_with(0);
    assert!(second.err.contains(warning), "{}", second.err);
    // Letters that match another filter, and runs that ended, cause no warning.
    let other = redrive(&db, &["dlq", "redrive", "class=Timeout"]).exits_with(1);
    assert!(!other.err.contains("has not ended"), "{}", other.err);
    for run in ["1", "2"] {
        redrive(&db, &["dlq", "runs", "cancel", run]).exits_with(0);
    }
    let dry = redrive(&db, &["dlq", "redrive", "orders"]).exits_with(0);
    assert!(!dry.err.contains("has not ended"), "{}", dry.err);
}

#[test]
fn the_list_of_runs_names_queue_filter_and_reason() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 2);
    let detached = [
        "dlq",
        "redrive",
        "orders",
        "cause=rejected",
        "--detach",
        "--yes",
        "--reason",
        "gateway fixed",
    ];
    redrive(&db, &detached).exits_with(0);
    let listed = redrive(&db, &["dlq", "runs", "list"]).exits_with(0).out;
    let line = listed.lines().nth(1).expect("a run");
    assert!(
        line.contains("  orders  ") && line.ends_with("cause=rejected: gateway fixed"),
        "{listed}"
    );
    let shown = redrive(&db, &["dlq", "runs", "show", "1"])
        .exits_with(0)
        .out;
    assert!(
        shown.contains("queue            orders")
            && shown.contains("filter           cause=rejected"),
        "{shown}"
    );
}

#[test]
fn the_screen_shows_halted_runs_apart_from_those_in_progress() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 2);
    let detached = ["dlq", "redrive", "orders", "--detach", "--yes"];
    redrive(&db, &detached).exits_with(0);
    redrive(&db, &detached).exits_with(0);
    db.client()
        .batch_execute(
            "UPDATE redrive.redrive_runs SET state = 'halted', halted_because = 'a test' WHERE id = 1",
        )
        .unwrap();
    let screen = redrive(&db, &["dlq"]).exits_with(0).out;
    let (_, halted) = screen
        .split_once("Redrive runs that halted\n")
        .expect("a heading");
    let (halted, in_progress) = halted
        .split_once("Redrive runs in progress\n")
        .expect("a heading");
    assert!(
        halted.contains("run 1 halted") && !halted.contains("run 2"),
        "{screen}"
    );
    assert!(
        in_progress.contains("run 2 running") && !in_progress.contains("run 1"),
        "{screen}"
    );
    let json = redrive(&db, &["dlq", "--json"]).exits_with(0).lines();
    assert_eq!(
        (&json[0]["halted_runs"][0]["id"], &json[0]["runs"][0]["id"]),
        (&1.into(), &2.into())
    );
}
