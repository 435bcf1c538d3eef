//! A letter whose payload was redacted stays until an edit replaces the values, or an operator forces
//! it.

use redrive::dlq::runs::{DriveStatus, RunOptions};
use redrive::dlq::{
    Edit, ForeignFailure, Letter, LetterFilter, LetterState, Policy, Redaction, RedriveOptions,
    Skip,
};
use redrive::{Database, Failure, JobId, Operator, Queue};
use redrive_tests::{TestDatabase, statement};
use uuid::Uuid;

use super::{cards, charge, declined, die};

/// Makes a letter whose card number was redacted.
fn redacted(queue: &Queue) -> JobId {
    let id = queue.enqueue(&charge()).unwrap();
    die(queue, declined);
    let letter = letter(queue.database(), id);
    assert_eq!(letter.redacted, ["/card"]);
    id
}

fn letter(db: &Database, id: JobId) -> Letter {
    db.dlq().get(id).unwrap().expect("the letter")
}

fn maria() -> Operator {
    Operator::new("maria@ops-1").reason("the customer agreed")
}

#[test]
fn nothing_sends_a_redacted_letter_back_without_force() {
    let test = TestDatabase::migrated();
    let (queue, mut client) = (test.queue("orders"), test.client());
    let db = queue.database();
    cards(db);
    let id = redacted(&queue);
    let (all, one) = (LetterFilter::new(), LetterFilter::new().ids([id]));
    let open = LetterFilter::new().state(LetterState::Open);
    for open in [open.clone(), open.ids([id])] {
        let count = db.dlq().count(&open).unwrap();
        assert_eq!((count.letters, count.redrivable), (1, 0));
    }
    let preview = db.dlq().preview_redrive(&all, &RedriveOptions::new());
    let preview = preview.unwrap();
    let left_out: Vec<(Skip, u64)> = preview
        .left_out
        .iter()
        .map(|left_out| (left_out.reason, left_out.letters))
        .collect();
    assert_eq!(
        (preview.letters(), left_out),
        (0, vec![(Skip::Redacted, 1)])
    );

    let done = db.dlq().redrive(&one, &maria()).unwrap();
    assert_eq!(done.skipped, [(id, Skip::Redacted)]);
    let done = db.dlq().redrive(&all, &maria()).unwrap();
    assert!(done.redriven.is_empty());
    let (run, mut driver) = db
        .dlq()
        .runs()
        .start(&all, &RunOptions::new(), &maria())
        .unwrap()
        .expect("a member");
    while driver.step().unwrap().status == DriveStatus::Running {}
    let skips = db.dlq().runs().skips(run.id).unwrap();
    assert_eq!(skips, [(Skip::Redacted, 1)]);
    let policy = Policy::new("p", all.clone());
    db.dlq().policies().set(&policy, &maria()).unwrap();
    let tick = client
        .query_one(statement("run_policies"), &[&Uuid::new_v4(), &60_000_i64])
        .unwrap();
    assert_eq!(tick.get::<_, i64>("letters"), 0);
    assert_eq!(letter(db, id).state, LetterState::Open);

    let forced = RedriveOptions::new().force();
    let without_reason = db.dlq().redrive_with(&one, &forced, &Operator::default());
    assert!(without_reason.expect_err("no reason").is_invalid());
    let preview = db.dlq().preview_redrive(&all, &forced).unwrap();
    assert_eq!((preview.letters(), preview.left_out.len()), (1, 0));
    let done = db.dlq().redrive_with(&one, &forced, &maria()).unwrap();
    assert_eq!(done.redriven, [id]);
}

#[test]
fn a_letter_that_dies_again_stays_marked_even_without_the_rule() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let rule = cards(db);
    let id = redacted(&queue);
    let forced = RedriveOptions::new().force();
    let one = LetterFilter::new().ids([id]);
    db.dlq().redrive_with(&one, &forced, &maria()).unwrap();
    db.dlq().redactions().remove(rule, &maria()).unwrap();
    die(&queue, || Failure::reject("no such card"));
    assert_eq!(letter(db, id).redacted, ["/card"]);
}

#[test]
fn an_edit_that_replaces_the_redacted_values_clears_the_mark() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    cards(db);
    let amount = Redaction::new().path("/amount").keep_types();
    db.dlq().redactions().add(&amount, &maria()).unwrap();
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, declined);
    let one = LetterFilter::new().ids([id]);
    let edit = |edit: Edit| {
        let edited = db.dlq().edit(&one, &edit, &maria()).unwrap().edited;
        assert_eq!(edited, [id]);
        letter(db, id).redacted
    };
    assert_eq!(letter(db, id).redacted, ["/card", "/amount"]);
    let other = edit(Edit::merge(r#"{"currency": "EUR"}"#).unwrap());
    assert_eq!(other, ["/card", "/amount"]);
    let card = edit(Edit::merge(r#"{"card": "4000"}"#).unwrap());
    assert_eq!(card, ["/amount"]);
    let whole = Edit::set(r#"{"card": "4000", "amount": 7}"#).unwrap();
    assert!(edit(whole).is_empty());

    // An earlier payload is as redacted as it was.
    db.dlq().restore_version(id, Some(0), &maria()).unwrap();
    assert_eq!(letter(db, id).redacted, ["/card", "/amount"]);
    db.dlq().restore_version(id, None, &maria()).unwrap();
    assert!(letter(db, id).redacted.is_empty());
    assert_eq!(db.dlq().redrive(&one, &maria()).unwrap().redriven, [id]);
}

#[test]
fn redacted_letters_are_delivered_only_with_force() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    cards(db);
    let id = redacted(&queue);
    // The bytes of this failure are redacted.
    let bytes = b"{4111111111111111".as_slice();
    let event = ForeignFailure::new("kafka", "1", "orders", "charge", bytes);
    db.dlq().capture(&event).unwrap();
    let sink = |_: &Letter| Ok(());
    let all = LetterFilter::new();
    let done = db.dlq().deliver(&all, &sink, &maria()).unwrap();
    assert_eq!((done.delivered.len(), done.redacted.len()), (0, 2));
    assert!(done.redacted.contains(&id));
    let without_reason = db.dlq().deliver_forced(&all, &sink, &Operator::default());
    assert!(without_reason.expect_err("no reason").is_invalid());
    let done = db.dlq().deliver_forced(&all, &sink, &maria()).unwrap();
    assert_eq!((done.delivered.len(), done.redacted.len()), (2, 0));
}
