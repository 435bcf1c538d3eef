//! Redactions are applied to letters that exist already.

use redrive_tests::prelude::*;

use super::{SECRET, cards, charge, declined, die, found, is_redacted};

#[test]
fn existing_letters_their_versions_and_groups_are_redacted() {
    let test = TestDatabase::migrated();
    let (queue, mut client) = (test.queue("orders"), test.client());
    let db = queue.database();
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, || declined().failure_key(format!("card {SECRET}")));
    let bytes = format!("{{{SECRET}");
    let event = ForeignFailure::new("kafka", "1", "orders", "charge", bytes.into_bytes());
    db.captures(&event);
    let edit = Edit::merge(r#"{"currency": "EUR"}"#).unwrap();
    let one = only(id);
    db.edits(&one, &edit);
    let elsewhere = test.queue("mails");
    let other = elsewhere.enqueue(&charge()).unwrap();
    die(&elsewhere, || Failure::reject("no"));
    cards(db);
    let before = found(&mut client);
    assert!(before > 3, "letters, a group and a detail: {before}");

    let dry = test.run("redact apply");
    let would = "2 would be redacted";
    dry.shows(would);
    assert_eq!(found(&mut client), before, "a dry run changes nothing");
    let act = "redact apply --reason 'card data' --yes";
    test.run(act).shows("2 letters redacted");
    assert!(db.letter(other).redacted.is_empty());
    assert_eq!(found(&mut client), 1, "the letter of the other queue");
    let versions = db.dlq().versions(id).unwrap();
    let first = versions[0].payload.as_ref().expect("JSON");
    assert_eq!(first.get(), r#"{"card": "[redacted]", "amount": 7}"#);
    let letter = db.letter(id);
    assert_eq!(letter.redacted, ["/card"]);
    assert_eq!(letter.failure_key.as_deref(), Some("card [redacted]"));
    assert_eq!(letter.events.last().expect("an event").event, "redacted");
    let record = "SELECT letters, reason FROM redrive.audit WHERE verb = 'redact'";
    let record: (i64, String) = client.row(record, &[]);
    assert_eq!(record, (2, "card data".to_owned()));

    // The version that is restored is redacted too, and nothing is left to do.
    db.restores(&only(id), Some(0));
    is_redacted(db, id);
    let redactions = db.dlq().redactions();
    assert_eq!(redactions.preview(&LetterFilter::new()).unwrap(), 0);
    test.fails(1, "redact apply --yes");
}

#[test]
fn a_newer_rule_leaves_no_captured_bytes_of_a_letter_that_dies() {
    for is_edited in [false, true] {
        let (test, queue) = TestDatabase::with_orders();
        let (db, mut client) = (queue.database(), test.client());
        let bytes = serde_json::to_vec(&charge()).unwrap();
        db.captures(&ForeignFailure::new(
            "kafka", "1", "orders", "charge", bytes,
        ));
        db.redrives(&LetterFilter::new());
        if is_edited {
            // The new payload has no value at the path of the rule.
            let edit = Edit::merge(r#"{"card": null}"#).unwrap();
            let edited = db.admin().jobs().edit(&JobFilter::new(), &edit, &maria());
            assert_eq!(edited.unwrap().edited.len(), 1);
        }
        cards(db);
        die(&queue, || Failure::reject("no"));
        assert_eq!(found(&mut client), 0, "{is_edited}");
    }
}
