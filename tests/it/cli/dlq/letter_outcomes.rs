//! The outcome of each letter of a run is visible, also after later runs.

use redrive_tests::TestDatabase;
use serde_json::{Value, json};

use super::super::{letters, redrive};

/// Returns outcome, reason and state of each letter of a run.
fn outcomes(db: &TestDatabase, run: &str) -> Vec<(Value, Value, Value)> {
    redrive(db, &["dlq", "runs", "show", run, "--letters", "--json"])
        .exits_with(0)
        .lines()
        .into_iter()
        .map(|line| {
            (
                line["outcome"].clone(),
                line["reason"].clone(),
                line["state"].clone(),
            )
        })
        .collect()
}

#[test]
fn the_outcome_of_each_letter_stays_visible_after_later_runs() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 3);
    let all = ["dlq", "redrive", "orders", "--unthrottled", "--yes"];
    let died = |word: &str| (json!(word), Value::Null, json!("open"));

    redrive(&db, &["dlq", "redrive", "orders", "--detach", "--yes"]).exits_with(0);
    assert_eq!(outcomes(&db, "1"), vec![died("waiting"); 3]);
    redrive(&db, &["dlq", "runs", "cancel", "1"]).exits_with(0);
    assert_eq!(outcomes(&db, "1"), vec![died("not_tried"); 3]);

    // The second run kills them again, the third with another error, one of them recovers.
    redrive(&db, &all).exits_with(0);
    let sent = (json!("sent"), Value::Null, json!("redriving"));
    assert_eq!(outcomes(&db, "2"), vec![sent; 3]);
    let work = |handler: &str| {
        redrive(&db, &["work", "orders", "--exec", handler, "--drain"]).exits_with(0);
    };
    work("echo broken >&2; exit 65");
    assert_eq!(outcomes(&db, "2"), vec![died("died_alike"); 3]);
    redrive(&db, &all).exits_with(0);
    work("echo different >&2; exit 65");
    assert_eq!(outcomes(&db, "3"), vec![died("died_differently"); 3]);
    redrive(&db, &all).exits_with(0);
    work("true");
    let as_before = (json!("died_alike"), Value::Null, json!("recovered"));
    assert_eq!(outcomes(&db, "2"), vec![as_before; 3]);

    let page = [
        "dlq",
        "runs",
        "show",
        "2",
        "--letters",
        "--limit",
        "1",
        "--after",
        "1",
    ];
    let page = redrive(&db, &page).exits_with(0);
    let line = page.out.lines().nth(1).expect("a letter");
    assert!(
        line.trim_start().starts_with("2  ") && line.contains("recovered  died again"),
        "{}",
        page.out
    );
    assert!(page.err.contains("--after 2"), "{}", page.err);
    redrive(
        &db,
        &["dlq", "runs", "show", "2", "--letters", "--after", "3"],
    )
    .exits_with(1);
    redrive(&db, &["dlq", "runs", "show", "9", "--letters"]).exits_with(1);
    redrive(&db, &["dlq", "runs", "show", "2", "--limit", "1"]).exits_with(2);
}

#[test]
fn the_timeline_of_a_letter_has_its_outcome_in_each_run() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let id = letters(&db, &queue, 1)[0].to_string();
    let all = ["dlq", "redrive", "orders", "--unthrottled", "--yes"];
    redrive(&db, &all).exits_with(0);
    redrive(
        &db,
        &[
            "work",
            "orders",
            "--exec",
            "echo broken >&2; exit 65",
            "--drain",
        ],
    )
    .exits_with(0);
    // A live job holds the unique key, so the second run skips the letter.
    db.client()
        .batch_execute(
            "UPDATE redrive.dead_letters SET unique_key = 'k';
             INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES ('orders', 'k', 999)",
        )
        .unwrap();
    redrive(&db, &all).exits_with(1);
    db.client()
        .batch_execute("DELETE FROM redrive.unique_keys")
        .unwrap();
    redrive(&db, &all).exits_with(0);

    let shown = redrive(&db, &["dlq", "show", &id]).exits_with(0).out;
    for line in [
        "  run 1       died again\n",
        "  run 2       skipped: a live job holds its unique key\n",
        "  run 3       sent\n",
        "(run 1) -> died again\n",
        "(run 3) -> sent\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let json = redrive(&db, &["dlq", "show", &id, "--json"]).exits_with(0);
    assert_eq!(
        json.lines()[0]["runs"],
        json!([
            {"run": 3, "outcome": "sent", "reason": null},
            {"run": 2, "outcome": "skipped", "reason": "conflict"},
            {"run": 1, "outcome": "died_alike", "reason": null},
        ])
    );
}
