//! Removing or redacting a letter also removes or redacts all bytes of a large capture.

use redrive_tests::prelude::*;

use super::super::super::archive::archive_all;
use super::{body, captured};

/// Something that removes a letter.
type Remove = fn(&Database, JobId);

const REMOVALS: [(&str, Remove); 6] = [
    ("prune", |db, id| {
        db.discards(&only(id));
        db.prunes(Duration::ZERO);
    }),
    ("retention", |db, id| {
        db.discards(&only(id));
        let rule = RetentionRule::delete(LetterState::Discarded, Duration::ZERO);
        db.retains(&rule);
        db.tidies_up();
        let retention = db.dlq().retention();
        let removed = retention.remove(None, LetterState::Discarded, &maria());
        assert!(removed.unwrap());
    }),
    ("erase", |db, id| {
        db.dlq().erase(&only(id), &maria()).unwrap();
    }),
    ("erase after an edit", |db, id| {
        let edit = Edit::set("{\"tenant\": 42}").unwrap();
        db.edits(&only(id), &edit);
        let tenant: LetterFilter = "payload.tenant=42".parse().unwrap();
        db.dlq().erase(&tenant, &maria()).unwrap();
    }),
    ("deletion from the archive", |db, id| {
        assert_eq!(archive_all(db), 1);
        db.dlq().delete_archived(&only(id), &maria()).unwrap();
    }),
    ("erase in the archive", |db, id| {
        assert_eq!(archive_all(db), 1);
        db.dlq().erase(&only(id), &maria()).unwrap();
    }),
];

#[test]
fn every_removal_of_a_letter_removes_the_bytes() {
    let (test, db) = TestDatabase::opened();
    let body = body("1234");
    for (name, remove) in REMOVALS {
        let id = db.captures(&captured(name, &body));
        remove(&db, id);
        assert!(db.dlq().get(id).unwrap().is_none(), "{name}");
        assert!(db.dlq().archived_letter(id).unwrap().is_none(), "{name}");
        assert_eq!(test.count("letter_versions"), 0, "{name}");
    }
}

/// Fails unless nothing is left of the bytes.
#[track_caller]
fn is_redacted(db: &Database, id: JobId) {
    let letter = db.letter(id);
    assert_eq!(letter.raw.as_deref(), Some(&b"[redacted]"[..]));
    assert_eq!(letter.redacted, vec![String::new()]);
    assert_eq!(letter.raw_size, None);
}

#[test]
fn a_rule_that_applies_to_a_large_body_drops_it() {
    let (_test, db) = TestDatabase::opened();
    let body = body("4111");
    let other = Redaction::new().pattern("4222");
    let rule = db.redacts(&other);
    let id = db.captures(&captured("kept", &body));
    assert_eq!(db.dlq().redactions().apply(&only(id), &maria()).unwrap(), 0);
    super::is_whole(&db, id, &body);
    db.dlq().redactions().remove(rule, &maria()).unwrap();
    db.dlq().erase(&only(id), &maria()).unwrap();
    let rules = db.dlq().redactions();
    for (name, rule) in [
        ("after the start", Redaction::new().pattern("4111")),
        ("in the start", Redaction::new().pattern("blob")),
        ("with a path", Redaction::new().path("/card")),
    ] {
        // The rule is newer than one letter, and older than the other.
        let old = db.captures(&captured(&format!("{name}, old"), &body));
        let rule = rules.add(&rule, &maria()).unwrap();
        assert_eq!(rules.apply(&only(old), &maria()).unwrap(), 1, "{name}");
        is_redacted(&db, old);
        let new = db.captures(&captured(&format!("{name}, new"), &body));
        is_redacted(&db, new);
        rules.remove(rule, &maria()).unwrap();
    }
}

#[test]
fn a_rule_also_applies_to_earlier_versions_and_to_restored_letters() {
    let (_test, db) = TestDatabase::opened();
    let body = body("4111");
    let edited = db.captures(&captured("1", &body));
    let edit = Edit::set("{\"number\": 1}").unwrap();
    db.edits(&only(edited), &edit);
    let archived = db.captures(&captured("2", &body));
    db.discards(&only(archived));
    let rule = RetentionRule::archive(LetterState::Discarded, Duration::ZERO);
    db.retains(&rule);
    db.tidies_up();

    db.redacts(&Redaction::new().pattern("4111"));
    let redactions = db.dlq().redactions();
    redactions.apply(&LetterFilter::new(), &maria()).unwrap();
    let versions = db.dlq().versions(edited).unwrap();
    assert_eq!(versions[0].raw.as_deref(), Some(&b"[redacted]"[..]));
    db.dlq().restore(&only(archived), &maria()).unwrap();
    is_redacted(&db, archived);
}

#[test]
fn a_rule_applies_to_both_bodies_of_a_letter_that_is_captured_again() {
    let (_test, db) = TestDatabase::opened();
    let id = db.captures(&captured("1", &body("4111")));
    db.discards(&only(id));
    let rule = Redaction::new().pattern("4111");
    db.redacts(&rule);
    // Only the earlier bytes have the value.
    let second = body("5678");
    db.captures(&captured("1", &second));
    super::is_whole(&db, id, &second);
    let versions = db.dlq().versions(id).unwrap();
    assert_eq!(versions[0].raw.as_deref(), Some(&b"[redacted]"[..]));
}
