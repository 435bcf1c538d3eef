//! Restoring and deleting archived letters, and the archive's filter.

use std::time::Duration;

use redrive::dlq::{
    CaptureOutcome, Edit, ForeignFailure, GroupFilter, Letter, LetterFilter, LetterState,
    NotRestored, RetentionRule,
};
use redrive::{Database, Failure, Job, JobId, NewJob, Operator, Queue};
use redrive_tests::{
    Begin, Order, Sql, TestDatabase, drained, finish, letters, no_drift, ran, stop, worker,
};

fn operator() -> Operator {
    Operator::new("maria@ops-1").reason("INC-7")
}

fn ids(ids: &[JobId]) -> LetterFilter {
    LetterFilter::new().ids(ids.iter().copied())
}

/// Archives every letter that is not redriving.
pub(super) fn archive_all(db: &Database) -> u64 {
    for state in LetterState::ALL {
        if state != LetterState::Redriving {
            let rule = RetentionRule::archive(state, Duration::ZERO);
            db.dlq().retention().set(&rule, &operator()).unwrap();
        }
    }
    let archived = db.dlq().retention().apply(&operator()).unwrap();
    for state in LetterState::ALL {
        if state != LetterState::Redriving {
            db.dlq()
                .retention()
                .remove(None, state, &operator())
                .unwrap();
        }
    }
    archived
}

fn letter(db: &Database, id: JobId) -> Letter {
    db.dlq().get(id).unwrap().expect("the letter")
}

/// Redrives a letter, whose job dies again with this error class.
pub(super) fn redrive_in_vain(queue: &Queue, id: JobId, class: &'static str) {
    let redriven = queue.database().dlq().redrive(&ids(&[id]), &operator());
    assert_eq!(redriven.unwrap().redriven, [id]);
    let worker = worker(queue)
        .handle(move |_: &Job<Order>| Err(Failure::reject("still broken").class(class)))
        .started();
    finish(queue, worker);
}

/// The parts of a letter that the archive must keep.
fn story(letter: &Letter) -> String {
    let kept = (
        (letter.id, &letter.queue, &letter.kind, &letter.payload),
        (
            &letter.raw,
            &letter.headers,
            &letter.source,
            &letter.position,
        ),
        (
            &letter.error_class,
            &letter.error_message,
            &letter.error_detail,
        ),
        (letter.attempts, letter.earlier_attempts, letter.generation),
        (
            letter.deaths,
            letter.alike,
            letter.failed_redrives,
            letter.edits,
        ),
        (
            &letter.history,
            letter.died_at,
            letter.enqueued_at,
            &letter.redacted,
        ),
        (
            letter.group,
            &letter.unique_key,
            &letter.group_key,
            letter.seen,
        ),
    );
    format!("{kept:#?}")
}

#[test]
fn a_restored_letter_is_open_with_its_whole_story() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let job = NewJob::new(&Order { number: 1 }).unwrap().unique("one");
    let id = queue.enqueue_job(job).unwrap().id();
    let dying = worker(&queue)
        .handle(|_: &Job<Order>| Err(Failure::reject("broken").detail("at the till\n".repeat(100))))
        .started();
    drained(&queue);
    stop(dying);
    redrive_in_vain(&queue, id, "Other");
    redrive_in_vain(&queue, id, "Other");
    let set = Edit::set(r#"{"number": 1, "mended": null}"#).unwrap();
    db.dlq().edit(&ids(&[id]), &set, &operator()).unwrap();
    let before = letter(db, id);
    assert_eq!(
        (before.generation, before.alike, before.failed_redrives),
        (2, 1, 2)
    );
    let versions = db.dlq().versions(id).unwrap();
    let groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();

    assert_eq!(archive_all(db), 1);
    assert!(db.dlq().get(id).unwrap().is_none());
    let archived = db.dlq().archived_letter(id).unwrap().expect("archived");
    assert_eq!(archived.letter.history, before.history);

    let restored = db.dlq().restore(&ids(&[id]), &operator()).unwrap();
    assert_eq!((&*restored.letters, restored.left.len()), (&[id][..], 0));
    let after = letter(db, id);
    assert_eq!(after.state, LetterState::Open);
    assert_eq!(story(&after), story(&before));
    assert_eq!(after.audit, restored.audit);
    let last = after.events.last().expect("an event");
    assert_eq!(
        (&*last.event, &last.about["reason"]),
        ("restored", &"INC-7".into())
    );
    assert_eq!(
        format!("{:?}", db.dlq().versions(id).unwrap()),
        format!("{versions:?}")
    );
    assert!(db.dlq().archived_letter(id).unwrap().is_none());
    // The deaths were counted when they happened.
    let again = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    let counts = |groups: &[redrive::dlq::FailureGroup]| -> Vec<_> {
        let count = |group: &redrive::dlq::FailureGroup| (group.id, group.deaths, group.open);
        groups.iter().map(count).collect()
    };
    assert_eq!(counts(&again), counts(&groups));
    no_drift(db);
    // It is counted as another like death.
    redrive_in_vain(&queue, id, "Other");
    assert_eq!((letter(db, id).generation, letter(db, id).alike), (3, 2));
}

#[test]
fn a_closed_letter_is_open_after_a_restore_and_a_quarantined_one_quarantined() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let made = letters(&queue, 3);
    let mut client = test.client();
    client
        .execute(
            "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id <> $1",
            &[&made[0].get()],
        )
        .unwrap();
    db.dlq().discard(&ids(&made[..2]), &operator()).unwrap();
    archive_all(db);
    assert_eq!(
        db.dlq()
            .restore(&LetterFilter::new(), &operator())
            .unwrap()
            .letters,
        made
    );
    let states: Vec<_> = made.iter().map(|id| letter(db, *id).state).collect();
    let quarantined = LetterState::Quarantined;
    assert_eq!(states, [LetterState::Open, quarantined, quarantined]);
    assert!(letter(db, made[0]).discard_reason.is_none());
    // An open letter is as young as its restore: a rule for old letters leaves it.
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '1 year'");
    let rule = RetentionRule::archive(LetterState::Open, Duration::from_hours(24));
    db.dlq().retention().set(&rule, &operator()).unwrap();
    let due = db.dlq().retention().due().unwrap();
    assert_eq!(due.iter().map(|due| due.letters).sum::<u64>(), 0);
    assert_eq!(db.dlq().retention().apply(&operator()).unwrap(), 0);
}

#[test]
fn a_letter_whose_place_is_taken_stays_in_the_archive() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let by_id = letters(&queue, 1)[0];
    let failure = ForeignFailure::new("kafka", "1", "orders", "order", *b"{}");
    let captured = db.dlq().capture(&failure).unwrap().id();
    let keyed = NewJob::new(&Order { number: 1 }).unwrap().unique("one");
    let by_key = queue.enqueue_job(keyed.clone()).unwrap().id();
    db.admin().cancel(by_key).unwrap();
    assert_eq!(archive_all(db), 3);
    assert!(matches!(
        db.dlq().capture(&failure).unwrap(),
        CaptureOutcome::New(_)
    ));
    queue.enqueue_job(keyed).unwrap();
    test.client()
        .execute(
            "INSERT INTO redrive.dead_letters (id, queue, kind, cause, error_class, error_message, payload, enqueued_at) \
             VALUES ($1, 'orders', 'order', 'rejected', 'c', 'm', '{}', now())",
            &[&by_id.get()],
        )
        .unwrap();
    let left = [
        (by_id, NotRestored::IdTaken),
        (captured, NotRestored::PositionTaken),
        (by_key, NotRestored::KeyTaken),
    ];
    assert_eq!(
        db.dlq().preview_restore(&LetterFilter::new()).unwrap().left,
        left
    );
    let restored = db.dlq().restore(&LetterFilter::new(), &operator()).unwrap();
    assert_eq!((restored.letters.len(), restored.audit), (0, None));
    assert_eq!(restored.left, left);
    assert_eq!(db.dlq().count_archived(&LetterFilter::new()).unwrap(), 3);
    let run = ran(&test, &["dlq", "archive", "restore", "orders", "--yes"]).exits_with(1);
    assert!(run.out.contains("0 letters restored"), "{}", run.out);
    for reason in ["was captured again", "holds the unique key", "has the id"] {
        assert!(run.err.contains(reason), "{}", run.err);
    }
}

#[test]
fn the_filter_of_letters_selects_in_the_archive() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let made = letters(&queue, 3);
    db.dlq()
        .capture(&ForeignFailure::new(
            "kafka", "1", "mails", "mail", *b"null",
        ))
        .unwrap();
    archive_all(db);
    // The groups of the archived letters are gone.
    test.client()
        .sql("SELECT redrive.fold_letters(); DELETE FROM redrive.groups");
    let found = |filter: &str| -> u64 {
        let filter: LetterFilter = filter.parse().unwrap();
        let listed = db.dlq().archived(&filter).unwrap().len() as u64;
        assert_eq!(
            db.dlq().count_archived(&filter).unwrap(),
            listed,
            "{filter}"
        );
        listed
    };
    for (filter, letters) in [
        ("", 4),
        ("queue=mails", 1),
        ("class=Rejected", 3),
        ("class=Rejected,captured", 4),
        ("kind=order payload.number=2", 1),
        ("payload.number>1", 2),
        ("state=open", 4),
        ("cause=captured", 1),
        ("source=kafka", 1),
        ("age>1h", 0),
        ("message~BROKEN", 3),
    ] {
        assert_eq!(found(filter), letters, "{filter}");
    }
    assert_eq!(found(&format!("id={}", made[1])), 1);

    // A restore counts the deaths of groups that were deleted.
    let class = LetterFilter::new().error_class("Rejected");
    assert_eq!(db.dlq().restore(&class, &operator()).unwrap().letters, made);
    let groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    assert_eq!((groups.len(), groups[0].deaths, groups[0].open), (1, 3, 3));
    assert!(groups[0].first_seen <= letter(db, made[0]).died_at);
    assert_eq!(groups[0].last_seen, letter(db, made[2]).died_at);

    // It changes no other group.
    let class = LetterFilter::new().error_class("captured");
    assert_eq!(
        db.dlq().restore(&class, &operator()).unwrap().letters.len(),
        1
    );
    let both = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    let old = both.iter().find(|group| group.queue == "orders").unwrap();
    assert_eq!((both.len(), old.last_seen), (2, groups[0].last_seen));
}
