//! Discard and prune.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::dlq::{LetterFilter, LetterState};
use redrive::{JobId, Operator};
use redrive_tests::{TestDatabase, finish, letters, letters_in, willing};

#[test]
fn a_discard_requires_a_reason_and_stores_it() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let ids = letters(&queue, 3);
    for reason in ["", "  \n"] {
        assert!(
            db.dlq()
                .discard(&LetterFilter::new(), &Operator::default().reason(reason))
                .expect_err("no reason")
                .is_invalid()
        );
    }
    assert_eq!(
        db.dlq()
            .discard(
                &LetterFilter::new().ids([ids[1]]),
                &Operator::default().reason("sold out")
            )
            .unwrap(),
        [ids[1]]
    );
    assert_eq!(
        db.dlq()
            .discard(
                &LetterFilter::new().ids([ids[1]]),
                &Operator::default().reason("again")
            )
            .unwrap(),
        [],
        "it is closed"
    );
    let letter = db
        .dlq()
        .get(ids[1])
        .unwrap()
        .expect("it stays until it is pruned");
    assert_eq!(
        (letter.state, letter.discard_reason.as_deref()),
        (LetterState::Discarded, Some("sold out"))
    );
    assert_eq!(letter.payload.expect("JSON").get(), r#"{"number":2}"#);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    // A reason is free text: bytes that the database cannot store are replaced.
    assert_eq!(
        db.dlq()
            .discard(
                &LetterFilter::new().ids([ids[0]]),
                &Operator::default().reason("a\0b")
            )
            .unwrap(),
        [ids[0]]
    );
}

#[test]
fn prune_deletes_old_closed_letters_and_never_an_open_one() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let ids = letters(&queue, 8);
    db.dlq()
        .discard(
            &LetterFilter::new().ids([ids[0], ids[1]]),
            &Operator::default().reason("not wanted"),
        )
        .unwrap();
    db.dlq()
        .redrive(
            &LetterFilter::new().ids([ids[2], ids[3], ids[4]]),
            &Operator::default(),
        )
        .unwrap();
    let worker = willing(&queue);
    finish(&queue, worker);
    // Old letters: one discarded, one recovered, one open, one redriving.
    db.dlq()
        .redrive(&LetterFilter::new().ids([ids[6]]), &Operator::default())
        .unwrap();
    let old = [ids[0], ids[2], ids[5], ids[6]].map(JobId::get);
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '90 days', \
             changed_at = changed_at - interval '90 days' WHERE id = ANY ($1)",
            &[&old.as_slice()],
        )
        .unwrap();
    let days = |days: u64| Duration::from_hours(24 * days);
    let prune = |age| {
        let counted = db.dlq().count_prunable(age).unwrap();
        let pruned = db.dlq().prune(age, &Operator::default()).unwrap();
        assert_eq!(counted, pruned);
        pruned
    };
    assert_eq!(prune(days(100)), 0);
    assert_eq!(prune(days(30)), 2);
    let left: BTreeSet<JobId> = db
        .dlq()
        .list(&LetterFilter::new())
        .unwrap()
        .iter()
        .map(|letter| letter.id)
        .collect();
    assert_eq!(
        left,
        [1, 3, 4, 5, 6, 7].map(|place: usize| ids[place]).into()
    );
    assert_eq!(prune(Duration::ZERO), 3, "what is closed, however young");
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 1);
}
