//! Discard and prune: letters that nobody wants any more.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::{Act, Job, JobId, LetterState, Letters};
use redrive_tests::{Order, TestDatabase, drained, letters, letters_in, stop, worker};

#[test]
fn a_discard_needs_a_reason_and_keeps_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let ids = letters(&queue, 3);
    for reason in ["", "  \n"] {
        assert!(
            db.discard(&Letters::all(), &Act::new().why(reason))
                .expect_err("no reason")
                .is_invalid()
        );
    }
    assert_eq!(
        db.discard(&Letters::ids([ids[1]]), &Act::new().why("sold out"))
            .unwrap(),
        [ids[1]]
    );
    assert_eq!(
        db.discard(&Letters::ids([ids[1]]), &Act::new().why("again"))
            .unwrap(),
        [],
        "it is closed"
    );
    let letter = db
        .letter(ids[1])
        .unwrap()
        .expect("it stays until it is pruned");
    assert_eq!(
        (letter.state, letter.discard_reason.as_deref()),
        (LetterState::Discarded, Some("sold out"))
    );
    assert_eq!(letter.payload.expect("JSON").get(), r#"{"number": 2}"#);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    // A reason is free text: bytes that the database cannot hold do not stop it.
    assert_eq!(
        db.discard(&Letters::ids([ids[0]]), &Act::new().why("a\0b"))
            .unwrap(),
        [ids[0]]
    );
}

#[test]
fn prune_deletes_old_closed_letters_and_never_an_open_one() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let ids = letters(&queue, 8);
    db.discard(
        &Letters::ids([ids[0], ids[1]]),
        &Act::new().why("not wanted"),
    )
    .unwrap();
    db.redrive(&Letters::ids([ids[2], ids[3], ids[4]]), &Act::new())
        .unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    // Old: a discarded one, a recovered one, an open one, and one that is being redriven.
    db.redrive(&Letters::ids([ids[6]]), &Act::new()).unwrap();
    let old = [ids[0], ids[2], ids[5], ids[6]].map(JobId::get);
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '90 days', \
             changed_at = changed_at - interval '90 days' WHERE id = ANY ($1)",
            &[&old.as_slice()],
        )
        .unwrap();
    assert_eq!(db.prune(Duration::from_hours(100 * 24)).unwrap(), 0);
    assert_eq!(db.prune(Duration::from_hours(30 * 24)).unwrap(), 2);
    let left: BTreeSet<JobId> = db
        .letters(&Letters::all())
        .unwrap()
        .iter()
        .map(|letter| letter.id)
        .collect();
    assert_eq!(
        left,
        [1, 3, 4, 5, 6, 7].map(|place: usize| ids[place]).into()
    );
    assert_eq!(
        db.prune(Duration::ZERO).unwrap(),
        3,
        "what is closed, however young"
    );
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 1);
}

#[test]
fn a_prune_of_thousands_goes_on_until_nothing_is_left() {
    let test = TestDatabase::migrated();
    test.client()
        .execute(
            "INSERT INTO redrive.dead_letters \
             (queue, kind, reason, error_class, error_message, payload, enqueued_at, state, discard_reason) \
             SELECT 'q', 'k', 'rejected', 'c', 'm', '{}', now(), 'discarded', 'why' FROM generate_series(1, 2500)",
            &[],
        )
        .unwrap();
    assert_eq!(test.open().prune(Duration::ZERO).unwrap(), 2500);
}
