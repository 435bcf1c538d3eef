//! Redactions are applied to letters that exist already.

use redrive::dlq::{Edit, ForeignFailure, LetterFilter};
use redrive::{Failure, Operator};
use redrive_tests::{TestDatabase, ran};

use super::{SECRET, cards, charge, declined, die, found, is_redacted};

#[test]
fn existing_letters_their_versions_and_groups_are_redacted() {
    let test = TestDatabase::migrated();
    let (queue, mut client) = (test.queue("orders"), test.client());
    let db = queue.database();
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, declined);
    let bytes = format!("{{{SECRET}");
    let event = ForeignFailure::new("kafka", "1", "orders", "charge", bytes.into_bytes());
    db.dlq().capture(&event).unwrap();
    let edit = Edit::merge(r#"{"currency": "EUR"}"#).unwrap();
    let one = LetterFilter::new().ids([id]);
    db.dlq().edit(&one, &edit, &Operator::default()).unwrap();
    let elsewhere = test.queue("mails");
    let other = elsewhere.enqueue(&charge()).unwrap();
    die(&elsewhere, || Failure::reject("no"));
    cards(db);
    let before = found(&mut client);
    assert!(before > 3, "letters, a group and a detail: {before}");

    let dry = ran(&test, &["redact", "apply"]).exits_with(0);
    let would = "2 letters would be redacted";
    assert!(dry.out.contains(would), "{}", dry.out);
    assert_eq!(found(&mut client), before, "a dry run changes nothing");
    let act = ["redact", "apply", "--reason", "card data", "--yes"];
    let acted = ran(&test, &act).exits_with(0);
    assert!(acted.out.contains("2 letters redacted"), "{}", acted.out);
    let only = db.dlq().get(other).unwrap().expect("a letter");
    assert!(only.redacted.is_empty());
    assert_eq!(found(&mut client), 1, "the letter of the other queue");
    let versions = db.dlq().versions(id).unwrap();
    let first = versions[0].payload.as_ref().expect("JSON");
    assert_eq!(first.get(), r#"{"card": "[redacted]", "amount": 7}"#);
    let letter = db.dlq().get(id).unwrap().expect("the letter");
    assert_eq!(letter.redacted, ["/card"]);
    assert_eq!(letter.events.last().expect("an event").event, "redacted");
    let record = client
        .query_one(
            "SELECT letters, reason FROM redrive.audit WHERE verb = 'redact'",
            &[],
        )
        .unwrap();
    assert_eq!(
        (record.get(0), record.get(1)),
        (2_i64, Some("card data".to_owned()))
    );

    // The version that is restored is redacted too, and nothing is left to do.
    db.dlq()
        .restore_version(id, Some(0), &Operator::default())
        .unwrap();
    is_redacted(db, id);
    let redactions = db.dlq().redactions();
    assert_eq!(redactions.preview(&LetterFilter::new()).unwrap(), 0);
    ran(&test, &["redact", "apply", "--yes"]).exits_with(1);
}
