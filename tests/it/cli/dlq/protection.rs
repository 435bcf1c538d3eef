//! The commands that protect a queue, and the approval of a run.

use redrive::Operator;
use redrive::dlq::LetterFilter;
use redrive::dlq::runs::RunOptions;
use redrive_tests::TestDatabase;

use super::super::{letters, redrive};

#[test]
fn a_protected_queue_needs_an_approval() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    letters(&db, &orders, 3);
    redrive(&db, &["dlq", "protection", "list"]).exits_with(1);
    redrive(&db, &["dlq", "protection", "set", "orders"]).exits_with(2);
    redrive(
        &db,
        &["dlq", "protection", "set", "orders", "--approve-above", "2"],
    )
    .exits_with(0);
    let listed = redrive(&db, &["dlq", "protection", "list"]).exits_with(0);
    assert!(listed.out.contains("another operator"), "{}", listed.out);
    let listed = redrive(&db, &["dlq", "protection", "list", "--json"]).exits_with(0);
    assert_eq!(listed.lines()[0]["approve_above"], 2);
    let created = redrive(&db, &["dlq", "redrive", "orders", "--detach", "--yes"]).exits_with(0);
    assert!(
        created
            .out
            .contains("a second operator must approve it: redrive dlq runs approve 1"),
        "{}",
        created.out
    );
    let listed = redrive(&db, &["dlq", "runs", "list"]).exits_with(0);
    assert!(listed.out.contains("unapproved"), "{}", listed.out);
    let shown = redrive(&db, &["dlq", "runs", "show", "1"]).exits_with(0);
    assert!(
        shown.out.contains("the approval of a second operator")
            && shown
                .out
                .contains("missing; another operator gives it with `redrive dlq runs approve 1`"),
        "{}",
        shown.out
    );
    let waited = redrive(&db, &["dlq", "redrive", "orders", "--yes"]).exits_with(1);
    assert!(
        waited.err.contains("redrive dlq runs approve 2"),
        "{}",
        waited.err
    );
    let own = redrive(&db, &["dlq", "runs", "approve", "1"]).exits_with(2);
    assert!(
        own.err.contains("another operator must approve it"),
        "{}",
        own.err
    );
    for own in ["1", "2"] {
        redrive(&db, &["dlq", "runs", "cancel", own]).exits_with(0);
    }
    let run = orders
        .database()
        .dlq()
        .runs()
        .create(
            &LetterFilter::new(),
            &RunOptions::new(),
            &Operator::new("maria"),
        )
        .unwrap()
        .unwrap();
    let id = run.id.to_string();
    let approved = redrive(&db, &["dlq", "runs", "approve", &id, "--json"]).exits_with(0);
    let line = &approved.lines()[0];
    assert_eq!(line["state"], "running");
    assert!(
        line["approved_by"].is_string() && line["approved_at"].is_string(),
        "{line}"
    );
    let shown = redrive(&db, &["dlq", "runs", "show", &id]).exits_with(0);
    let by = format!("by {}, ", line["approved_by"].as_str().unwrap());
    assert!(
        shown.out.contains("  approval         ") && shown.out.contains(&by),
        "{}",
        shown.out
    );
    redrive(&db, &["dlq", "runs", "approve", &id]).exits_with(1);
    redrive(&db, &["dlq", "protection", "remove", "orders"]).exits_with(0);
    redrive(&db, &["dlq", "protection", "remove", "orders"]).exits_with(1);
}
