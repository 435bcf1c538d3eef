//! A failure that is captured again after its letter was closed reopens the letter.

use redrive_tests::prelude::*;

use super::captured;

/// A failure at position 1 whose bytes become an [`Order`].
fn failure(class: &str, message: &str) -> ForeignFailure {
    captured("1", br#"{"number": 1}"#).error(class, message)
}

/// Captures a failure that must reopen the letter.
#[track_caller]
fn reopens(db: &Database, failure: &ForeignFailure, id: JobId) {
    let outcome = db.dlq().capture(failure).unwrap();
    assert_eq!(outcome, CaptureOutcome::Reopened(id));
}

/// Captures a failure whose letter must not close or reopen.
#[track_caller]
fn is_known(db: &Database, failure: &ForeignFailure, id: JobId) {
    let outcome = db.dlq().capture(failure).unwrap();
    assert_eq!(outcome, CaptureOutcome::Known(id));
}

fn groups(db: &Database) -> Vec<FailureGroup> {
    let mut groups = db.groups(&GroupFilter::new());
    groups.sort_by_key(|group| group.id);
    groups
}

#[test]
fn a_recovered_letter_reopens_with_the_new_failure_and_its_history() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = db.captures_new(&failure("Timeout", "no answer in 5 s"));
    queue.redrives(&only(id));
    work_off(&queue, |_: &Job<Order>| Ok(()));
    assert_eq!(queue.letter(id).state, LetterState::Recovered);

    let again = captured("1", br#"{"number": 7}"#).detail("at line 1");
    let again = again.error("SchemaMismatch", "missing field `currency`");
    reopens(db, &again, id);
    let versions = db.dlq().versions(id).unwrap();
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0].reason.as_deref(), Some("captured again"));
    let old = versions[0].payload.as_ref().expect("JSON");
    assert_eq!(old.get(), r#"{"number": 1}"#);

    let reopened = db.letter(id);
    let found = (reopened.state, reopened.cause, reopened.generation);
    assert_eq!(found, (LetterState::Open, DeathCause::Captured, 1));
    let error = (&*reopened.error_class, &*reopened.error_message);
    assert_eq!(error, ("SchemaMismatch", "missing field `currency`"));
    assert_eq!(reopened.error_detail.as_deref(), Some("at line 1"));
    assert_eq!((reopened.seen, reopened.deaths), (2, 2));
    assert_eq!(outcomes(&reopened), [(0, "captured"), (1, "captured")]);
    let past = reopened.history.iter();
    let messages = past.map(|record| record.error_message.as_deref());
    assert!(messages.eq([Some("no answer in 5 s"), Some("missing field `currency`")]));
    let events: Vec<&str> = reopened.events.iter().map(|e| &*e.event).collect();
    assert_eq!(events, ["died", "redriven", "recovered"]);

    // One letter in the group of the new failure, and only its closed life in the old one.
    let groups = groups(db);
    for (group, class, open) in [(0, "Timeout", 0), (1, "SchemaMismatch", 1)] {
        let group: &FailureGroup = &groups[group];
        let counts = (group.open, group.recovered, group.deaths);
        assert_eq!((&*group.error_class, counts), (class, (open, 0, 1)));
    }
    assert_eq!(groups.len(), 2);
    assert_eq!(reopened.group, groups[1].id);
    assert_eq!(stats(db, "orders").expect("letters").open, 1);
    no_drift(db);
}

#[test]
fn a_discarded_letter_reopens_and_its_resolved_group_regresses() {
    let (_test, db) = TestDatabase::opened();
    let id = db.captures_new(&failure("Timeout", "no answer"));
    db.discards(&only(id));
    let group = db.letter(id).group;
    db.marks(group, GroupState::Resolved);

    let again = failure("Timeout", "no answer");
    reopens(&db, &again, id);
    let reopened = db.letter(id);
    assert_eq!(reopened.state, LetterState::Open);
    assert_eq!(reopened.discard_reason.as_deref(), None);
    let found = groups(&db);
    assert_eq!(found.len(), 1, "{found:?}");
    let counts = (found[0].open, found[0].discarded, found[0].deaths);
    assert_eq!((found[0].state, counts), (GroupState::Open, (1, 0, 2)));
    assert!(found[0].is_regression);

    // The same failure while the letter is open is a redelivery.
    is_known(&db, &again, id);
    let known = db.letter(id);
    assert_eq!((known.seen, known.deaths, known.generation), (3, 2, 1));
    assert_eq!(known.history, reopened.history);
    assert_eq!(groups(&db)[0].deaths, 2);
    no_drift(&db);
}

#[test]
fn a_recovery_or_another_failure_ends_a_row_of_like_deaths_and_a_discard_does_not() {
    let (test, db) = TestDatabase::opened();
    let alike = failure("Timeout", "no answer");
    let other = failure("SchemaMismatch", "missing field");
    let id = db.captures_new(&alike);
    let discarded = "state = 'discarded', discard_reason = 'x'";
    for (closed, again, left) in [
        (discarded, &alike, (3, 4)),
        ("state = 'recovered'", &alike, (0, 0)),
        (discarded, &other, (0, 4)),
    ] {
        test.sql(
            "UPDATE redrive.dead_letters SET state = 'quarantined', retry_after = NULL, alike = 3, failed_redrives = 4",
        );
        is_known(&db, again, id);
        let state = db.letter(id).state;
        assert_eq!(state, LetterState::Quarantined, "a capture only counts");
        test.sql(&format!("UPDATE redrive.dead_letters SET {closed}"));
        reopens(&db, again, id);
        let letter = db.letter(id);
        let counts = (letter.alike, letter.failed_redrives);
        assert_eq!(counts, left, "{closed}");
    }
}

#[test]
fn a_reopened_letter_keeps_no_value_that_a_newer_rule_redacts() {
    let (test, db) = TestDatabase::opened();
    let event =
        |card: &str| captured("1", format!(r#"{{"card": "{card}"}}"#).as_bytes()).error("E", card);
    let id = db.captures_new(&event("4111-1111"));
    db.discards(&only(id));
    test.sql("SELECT redrive.add_redaction(NULL, NULL, '{/card}', ARRAY['[0-9]{4}-[0-9]{4}'])");
    reopens(&db, &event("4222-2222"), id);
    let stored = "SELECT l::text || coalesce((SELECT string_agg(v::text, '') \
                                         FROM redrive.letter_versions v), '') \
             FROM redrive.dead_letters l";
    let stored: String = test.client().ask(stored, &[]);
    has(&stored, "[redacted]");
    lacks(&stored, "4111-1111");
    lacks(&stored, "4222-2222");
}
