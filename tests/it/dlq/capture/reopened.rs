//! A failure that is captured again after its letter was closed reopens the letter.

use redrive::dlq::{
    CaptureOutcome, DeathCause, FailureGroup, ForeignFailure, GroupFilter, GroupState, Letter,
    LetterFilter, LetterState,
};
use redrive::{Database, Failure, Job, JobId, Operator, Queue};
use redrive_tests::{Begin, Order, Sql, TestDatabase, finish, no_drift, stats, worker};

use super::captured;

/// A failure at position 1 whose bytes become an [`Order`].
fn failure(class: &str, message: &str) -> ForeignFailure {
    captured("1", br#"{"number": 1}"#).error(class, message)
}

/// Captures a failure whose position is new.
fn new_letter(db: &Database, failure: &ForeignFailure) -> JobId {
    let captured = db.dlq().capture(failure).unwrap();
    let CaptureOutcome::New(id) = captured else {
        panic!("{captured:?}")
    };
    id
}

fn letter(db: &Database, id: JobId) -> Letter {
    db.dlq().get(id).unwrap().expect("the letter")
}

/// Redrives a letter and runs its job.
fn redrive(
    queue: &Queue,
    id: JobId,
    handler: impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static,
) {
    let redriven = queue
        .database()
        .dlq()
        .redrive(&LetterFilter::new().ids([id]), &Operator::default())
        .unwrap();
    assert_eq!(redriven.redriven, [id]);
    let worker = worker(queue).handle(handler).started();
    finish(queue, worker);
}

fn recover(queue: &Queue, id: JobId) {
    redrive(queue, id, |_| Ok(()));
    assert_eq!(letter(queue.database(), id).state, LetterState::Recovered);
}

fn discard(db: &Database, id: JobId) {
    let operator = Operator::default().reason("refunded");
    let closed = db.dlq().discard(&LetterFilter::new().ids([id]), &operator);
    assert_eq!(closed.unwrap(), [id]);
}

fn groups(db: &Database) -> Vec<FailureGroup> {
    let mut groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    groups.sort_by_key(|group| group.id);
    groups
}

#[test]
fn a_recovered_letter_reopens_with_the_new_failure_and_its_history() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = new_letter(db, &failure("Timeout", "no answer in 5 s"));
    recover(&queue, id);

    let again = failure("SchemaMismatch", "missing field `currency`").detail("at line 1");
    assert_eq!(
        db.dlq().capture(&again).unwrap(),
        CaptureOutcome::Reopened(id)
    );

    let reopened = letter(db, id);
    assert_eq!(
        (reopened.state, reopened.cause, reopened.generation),
        (LetterState::Open, DeathCause::Captured, 1)
    );
    assert_eq!(
        (&*reopened.error_class, &*reopened.error_message),
        ("SchemaMismatch", "missing field `currency`")
    );
    assert_eq!(reopened.error_detail.as_deref(), Some("at line 1"));
    assert_eq!((reopened.seen, reopened.deaths), (2, 2));
    let failures: Vec<_> = reopened
        .history
        .iter()
        .map(|record| {
            let text = |word: &Option<String>| word.clone().unwrap_or_default();
            let (class, message) = (text(&record.error_class), text(&record.error_message));
            (record.generation, record.outcome.clone(), class, message)
        })
        .collect();
    let record = |generation, class: &str, message: &str| {
        let (class, message) = (class.to_owned(), message.to_owned());
        (generation, "captured".to_owned(), class, message)
    };
    assert_eq!(
        failures,
        [
            record(0, "Timeout", "no answer in 5 s"),
            record(1, "SchemaMismatch", "missing field `currency`"),
        ]
    );
    let events: Vec<&str> = reopened.events.iter().map(|e| &*e.event).collect();
    assert_eq!(events, ["died", "redriven", "recovered"]);

    // One letter in the group of the new failure, and only its closed life in the old one.
    let groups = groups(db);
    let counts: Vec<_> = groups
        .iter()
        .map(|group| {
            (
                &*group.error_class,
                group.open,
                group.recovered,
                group.deaths,
            )
        })
        .collect();
    assert_eq!(counts, [("Timeout", 0, 0, 1), ("SchemaMismatch", 1, 0, 1)]);
    assert_eq!(reopened.group, groups[1].id);
    assert_eq!(stats(db, "orders").expect("letters").open, 1);
    no_drift(db);
}

#[test]
fn a_discarded_letter_reopens_and_its_resolved_group_regresses() {
    let (_test, db) = TestDatabase::opened();
    let id = new_letter(&db, &failure("Timeout", "no answer"));
    discard(&db, id);
    let group = letter(&db, id).group;
    let operator = Operator::default();
    assert!(
        db.dlq()
            .groups()
            .set_state(group, GroupState::Resolved, &operator)
            .unwrap()
    );

    let again = failure("Timeout", "no answer");
    assert_eq!(
        db.dlq().capture(&again).unwrap(),
        CaptureOutcome::Reopened(id)
    );
    let reopened = letter(&db, id);
    assert_eq!(
        (reopened.state, reopened.discard_reason.as_deref()),
        (LetterState::Open, None)
    );
    let found = groups(&db);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].state, found[0].regressions, found[0].open),
        (GroupState::Open, 1, 1)
    );
    assert_eq!((found[0].discarded, found[0].deaths), (0, 2));

    // The same failure while the letter is open is a redelivery.
    assert_eq!(db.dlq().capture(&again).unwrap(), CaptureOutcome::Known(id));
    let known = letter(&db, id);
    assert_eq!((known.seen, known.deaths, known.generation), (3, 2, 1));
    assert_eq!(known.history, reopened.history);
    assert_eq!(groups(&db)[0].deaths, 2);
    no_drift(&db);
}

#[test]
fn a_reopened_letter_is_redriven_with_its_new_content_in_the_next_generation() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = new_letter(db, &failure("Timeout", "no answer"));
    redrive(&queue, id, |_| Err(Failure::reject("broken")));
    discard(db, id);
    let again = captured("1", br#"{"number": 7}"#).error("Timeout", "no answer");
    assert_eq!(
        db.dlq().capture(&again).unwrap(),
        CaptureOutcome::Reopened(id)
    );

    // The content before is a version, and the first failure is still in the history.
    let reopened = letter(db, id);
    let versions = db.dlq().versions(id).unwrap();
    assert_eq!((versions.len(), reopened.edits), (1, 1));
    assert_eq!(versions[0].reason.as_deref(), Some("captured again"));
    let old = versions[0].payload.as_ref().expect("JSON");
    assert_eq!(old.get(), r#"{"number": 1}"#);
    let outcomes: Vec<_> = reopened
        .history
        .iter()
        .map(|record| (record.generation, &*record.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [(0, "captured"), (1, "rejected"), (2, "captured")]
    );
    assert_eq!(reopened.history[2].host, None, "no worker ran it");

    redrive(&queue, id, |job| {
        assert_eq!((job.payload().number, job.generation()), (7, 3));
        Ok(())
    });
    assert_eq!(letter(db, id).state, LetterState::Recovered);
    no_drift(db);
}

#[test]
fn a_repeated_failure_neither_clears_nor_forgets_like_deaths() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = new_letter(db, &failure("Timeout", "no answer"));
    let reject = |_: &Job<Order>| Err(Failure::reject("broken").class("Broken"));
    for _ in 0..4 {
        redrive(&queue, id, reject);
    }
    let quarantined = letter(db, id);
    assert_eq!(
        (quarantined.state, quarantined.alike),
        (LetterState::Quarantined, 3)
    );
    // While it is quarantined, a capture only counts.
    let alike = failure("Broken", "broken");
    assert_eq!(db.dlq().capture(&alike).unwrap(), CaptureOutcome::Known(id));
    assert_eq!(letter(db, id).state, LetterState::Quarantined);

    discard(db, id);
    assert_eq!(
        db.dlq().capture(&alike).unwrap(),
        CaptureOutcome::Reopened(id)
    );
    assert_eq!(letter(db, id).alike, 3);
    redrive(&queue, id, reject);
    assert_eq!(letter(db, id).state, LetterState::Quarantined);

    discard(db, id);
    let other = failure("Timeout", "no answer");
    assert_eq!(
        db.dlq().capture(&other).unwrap(),
        CaptureOutcome::Reopened(id)
    );
    assert_eq!(letter(db, id).alike, 0);
    no_drift(db);
}

#[test]
fn a_redriving_letter_is_not_changed_by_a_capture() {
    let (_test, db) = TestDatabase::opened();
    let id = new_letter(&db, &failure("Timeout", "no answer"));
    let one = LetterFilter::new().ids([id]);
    db.dlq().redrive(&one, &Operator::default()).unwrap();
    let other = failure("SchemaMismatch", "missing field");
    assert_eq!(db.dlq().capture(&other).unwrap(), CaptureOutcome::Known(id));
    let answers = db.dlq().capture_many([&other]).unwrap();
    assert_eq!(answers, [CaptureOutcome::Known(id)]);
    let redriving = letter(&db, id);
    assert_eq!(
        (redriving.state, redriving.seen, &*redriving.error_class),
        (LetterState::Redriving, 1, "Timeout")
    );
    assert_eq!(groups(&db).len(), 1, "no group without a letter");
}

#[test]
fn a_reopened_letter_keeps_no_value_that_a_newer_rule_redacts() {
    let (test, db) = TestDatabase::opened();
    let event =
        |card: &str| captured("1", format!(r#"{{"card": "{card}"}}"#).as_bytes()).error("E", card);
    let id = new_letter(&db, &event("4111-1111"));
    discard(&db, id);
    test.client()
        .sql("SELECT redrive.add_redaction(NULL, NULL, '{/card}', ARRAY['[0-9]{4}-[0-9]{4}'])");
    assert_eq!(
        db.dlq().capture(&event("4222-2222")).unwrap(),
        CaptureOutcome::Reopened(id)
    );
    let row = test
        .client()
        .query_one(
            "SELECT l::text || coalesce((SELECT string_agg(v::text, '') \
                                         FROM redrive.letter_versions v), '') \
             FROM redrive.dead_letters l",
            &[],
        )
        .unwrap();
    let stored: String = row.get(0);
    assert!(stored.contains("[redacted]"), "{stored}");
    assert!(!stored.contains("4111-1111"), "{stored}");
    assert!(!stored.contains("4222-2222"), "{stored}");
}
