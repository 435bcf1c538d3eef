//! A letter whose payload was redacted stays until an edit replaces the values, or an operator forces
//! it.

use redrive_tests::prelude::*;

use super::{cards, charge, declined, die};

/// Makes a letter whose card number was redacted.
fn redacted(queue: &Queue) -> JobId {
    let id = queue.enqueue(&charge()).unwrap();
    die(queue, declined);
    let letter = queue.letter(id);
    assert_eq!(letter.redacted, ["/card"]);
    id
}

#[test]
fn nothing_sends_a_redacted_letter_back_without_force() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    cards(db);
    let id = redacted(&queue);
    let (all, one) = (LetterFilter::new(), only(id));
    db.leaves_out(&all, &[(Skip::Redacted, 1)]);
    let done = db.redrives(&one);
    assert_eq!(done.skipped, [(id, Skip::Redacted)]);
    let done = db.redrives(&all);
    assert!(done.redriven.is_empty());
    let run = db.drives(&all, &RunOptions::new());
    let skips = db.dlq().runs().skips(run.id).unwrap();
    assert_eq!(skips, [(Skip::Redacted, 1)]);
    let policy = Schedule::cron("p", "@daily").unwrap();
    let policy = policy.redrive(Policy::new(all.clone()));
    db.schedules().set(&policy, &maria()).unwrap();
    let triggered = db.schedules().trigger("p", &maria()).unwrap();
    assert_eq!(triggered, Triggered::Redriven(0));
    assert_eq!(db.letter(id).state, LetterState::Open);

    let forced = RedriveOptions::new().force();
    let without_reason = db.dlq().redrive_with(&one, &forced, &Operator::default());
    assert!(without_reason.expect_err("no reason").is_invalid());
    let preview = db.dlq().preview_redrive(&all, &forced).unwrap();
    assert_eq!((preview.letters, preview.left_out.len()), (1, 0));
    let done = db.redrives_with(&one, &forced);
    assert_eq!(done.redriven, [id]);
}

#[test]
fn a_letter_that_dies_again_stays_marked_until_an_edit_of_its_job_replaces_the_values() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let rule = cards(db);
    let id = redacted(&queue);
    let forced = RedriveOptions::new().force();
    let one = only(id);
    db.redrives_with(&one, &forced);
    db.dlq().redactions().remove(rule, &maria()).unwrap();
    die(&queue, || Failure::reject("no such card"));
    assert_eq!(db.letter(id).redacted, ["/card"]);

    db.redrives_with(&one, &forced);
    let edit = Edit::merge(r#"{"card": "4000"}"#).unwrap();
    let edited = db.admin().jobs().edit(&JobFilter::new(), &edit, &maria());
    assert_eq!(edited.unwrap().edited, [id]);
    die(&queue, || Failure::reject("no such card"));
    assert!(db.letter(id).redacted.is_empty());
}

#[test]
fn an_edit_that_replaces_the_redacted_values_clears_the_mark() {
    let (_test, queue) = TestDatabase::with_orders();
    cards(queue.database());
    let amount = Redaction::new().path("/amount");
    queue.redacts(&amount);
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, declined);
    let one = only(id);
    let edit = |edit: Edit| {
        let edited = queue.edits(&one, &edit).edited;
        assert_eq!(edited, [id]);
        queue.letter(id).redacted
    };
    assert_eq!(queue.letter(id).redacted, ["/card", "/amount"]);
    let other = edit(Edit::merge(r#"{"currency": "EUR"}"#).unwrap());
    assert_eq!(other, ["/card", "/amount"]);
    let card = edit(Edit::merge(r#"{"card": "4000"}"#).unwrap());
    assert_eq!(card, ["/amount"]);
    // As jsonb, the numbers would have two million digits.
    for amount in [8, 9] {
        let long = format!(
            r#"{{"amount": {amount}, "x": [{}]}}"#,
            ["1e9999"; 200].join(",")
        );
        assert_eq!(edit(Edit::set(&long).unwrap()), ["/amount"]);
    }
    let none: [&str; 0] = [];
    let whole = r#"{"card": "4000", "amount": 7}"#;
    assert_eq!(edit(Edit::set(whole).unwrap()), none);

    // An earlier payload is as redacted as it was.
    queue.restores(&only(id), Some(0));
    assert_eq!(queue.letter(id).redacted, ["/card", "/amount"]);
    queue.restores(&only(id), None);
    assert!(queue.letter(id).redacted.is_empty());
    assert_eq!(queue.redrives(&one).redriven, [id]);
}
