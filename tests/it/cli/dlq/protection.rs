//! The commands that protect a queue, and the approval of a run.

use redrive_tests::prelude::*;

use super::super::with_letters;

#[test]
fn a_protected_queue_needs_an_approval() {
    let (db, orders, _) = with_letters(3);
    db.fails(1, "dlq protection list");
    db.run("dlq protection set orders --approve-above 2");
    db.run("dlq protection list").shows("APPROVAL ABOVE");
    db.run("dlq redrive orders --detach --yes")
        .shows("missing; another operator gives it with `redrive dlq runs approve 1`");
    db.run("dlq runs list").shows("unapproved");
    db.fails(1, "dlq redrive orders --yes")
        .tells("redrive dlq runs approve 2");
    let own = db.fails(2, "dlq runs approve 1");
    own.tells("another operator must approve it");
    // The role has its privileges.
    lacks(&own.err, "grant_role");
    for own in ["1", "2"] {
        db.run(format!("dlq runs cancel {own}"));
    }
    let runs = orders.database().dlq().runs();
    let run = runs.create(&LetterFilter::new(), &RunOptions::new(), &maria());
    let id = run.unwrap().expect("letters").id;
    let line = db.run(format!("dlq runs approve {id} --json")).json();
    assert_eq!(line["state"], "running");
    let by = line["approved_by"].as_str().expect("a name");
    db.run(format!("dlq runs show {id}"))
        .shows("  approval         ")
        .shows(format!("by {by}, "));
    db.fails(1, format!("dlq runs approve {id}"));
    db.run("dlq protection remove orders");
    db.fails(1, "dlq protection remove orders");
}
