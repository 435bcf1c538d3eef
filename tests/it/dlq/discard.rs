//! Discard and prune.

use redrive_tests::prelude::*;

#[test]
fn a_discard_requires_a_reason_and_stores_it() {
    let (_test, queue, ids) = TestDatabase::with_letters(3);
    let db = queue.database();
    let discard = |filter, reason| {
        let operator = Operator::default().reason(reason);
        let discarded = db.dlq().discard(&filter, &operator);
        discarded.map(|changed| changed.ids)
    };
    for (filter, reason) in [
        (LetterFilter::new(), ""),
        (LetterFilter::new(), "  \n"),
        (LetterFilter::new().limit(0), ""),
    ] {
        let refused = discard(filter, reason);
        assert!(refused.expect_err("no reason").is_invalid());
    }
    let none = discard(LetterFilter::new().limit(0), "sold out");
    assert_eq!(none.unwrap(), []);
    assert_eq!(discard(only(ids[1]), "sold out").unwrap(), [ids[1]]);
    assert_eq!(db.discards(&only(ids[1])), [], "it is closed");
    let letter = db.letter(ids[1]);
    assert_eq!(letter.state, LetterState::Discarded);
    assert_eq!(letter.discard_reason.as_deref(), Some("sold out"));
    assert_eq!(letter.payload.expect("JSON").get(), r#"{"number":2}"#);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    // A reason is free text: bytes that the database cannot store are replaced.
    assert_eq!(discard(only(ids[0]), "a\0b").unwrap(), [ids[0]]);
}

#[test]
fn a_letter_keeps_as_much_of_a_name_and_a_reason_as_the_audit() {
    let (test, queue, _) = TestDatabase::with_letters(1);
    let (dlq, all) = (queue.database().dlq(), LetterFilter::new());
    let operator = Operator::new("n".repeat(300)).reason("r".repeat(2000));
    dlq.discard(&all, &operator).unwrap();
    dlq.reopen(&all, &operator).unwrap();
    dlq.redrive(&all, &operator).unwrap();
    let kept = "SELECT (length(e ->> 'by'), length(e ->> 'reason'))::text
                FROM redrive.dead_letters, jsonb_array_elements(events) e WHERE e ? 'reason'";
    let kept: Vec<String> = test.client().column(kept, &[]);
    assert_eq!(kept, ["(200,1024)"; 3]);
}

#[test]
fn prune_deletes_old_closed_letters_and_never_an_open_one() {
    let (test, queue, ids) = TestDatabase::with_letters(8);
    let db = queue.database();
    db.discards(&LetterFilter::new().ids([ids[0], ids[1]]));
    db.redrives(&LetterFilter::new().ids([ids[2], ids[3], ids[4]]));
    finish(&queue, willing(&queue));
    // Old letters: one discarded, one recovered, one open, one redriving.
    db.redrives(&only(ids[6]));
    let old = [ids[0], ids[2], ids[5], ids[6]].map(JobId::get);
    let age = "UPDATE redrive.dead_letters SET died_at = died_at - interval '90 days', \
               changed_at = changed_at - interval '90 days' WHERE id = ANY ($1)";
    test.client().change(age, &[&old.as_slice()]);
    let days = |days: u64| Duration::from_hours(24 * days);
    let prune = |age| {
        let counted = db.dlq().count_prunable(age).unwrap();
        let pruned = db.prunes(age);
        assert_eq!(counted, pruned);
        pruned
    };
    assert_eq!(prune(days(100)), 0);
    assert_eq!(prune(days(40_000)), 0, "older than anything");
    assert_eq!(prune(days(30)), 2);
    let left = db.listed(&LetterFilter::new());
    let left: BTreeSet<JobId> = left.iter().map(|letter| letter.id).collect();
    let kept = [1, 3, 4, 5, 6, 7].map(|place: usize| ids[place]);
    assert_eq!(left, kept.into());
    assert_eq!(prune(Duration::ZERO), 3, "what is closed, however young");
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 1);
    db.discards(&only(ids[5]));
    assert_eq!(prune(days(30)), 0, "an old letter, closed a moment ago");
}
