//! `prune`: a dry run by default.

use redrive::dlq::LetterState;
use redrive_tests::{TestDatabase, letters_in, ran_alone};

use super::{letters, redrive};

#[test]
fn a_prune_by_age_is_a_dry_run_without_yes() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 3);
    let discard = [
        "dlq", "discard", "orders", "--limit", "2", "--reason", "tests", "--yes",
    ];
    redrive(&db, &discard).exits_with(0);
    let discarded = || letters_in(queue.database(), "orders", LetterState::Discarded);
    for options in [
        &["--older-than", "0s"][..],
        &["--older-than", "0s", "--dry-run"],
    ] {
        let dry = redrive(&db, &[&["prune"], options].concat()).exits_with(0);
        for text in [
            "2 letters, recovered or discarded more than 0ms ago, would be deleted.",
            "redrive prune --older-than 0ms --yes",
        ] {
            assert!(dry.out.contains(text), "{}", dry.out);
        }
        let json = redrive(&db, &[&["prune", "--json"], options].concat()).exits_with(0);
        assert_eq!(json.lines()[0]["letters"], 2);
        assert_eq!(discarded(), 2);
    }
    // Without rules, the age is 30 days, and nothing is that old.
    let dry = redrive(&db, &["prune"]).exits_with(0);
    assert!(
        dry.out.contains("redrive prune --older-than 30d --yes"),
        "{}",
        dry.out
    );
    redrive(&db, &["prune", "--yes"]).exits_with(0);
    assert_eq!(discarded(), 2);
    redrive(&db, &["prune", "--older-than", "0s", "--yes", "--dry-run"]).exits_with(2);
    let pruned = redrive(&db, &["prune", "--older-than", "0s", "--yes"]).exits_with(0);
    assert!(pruned.out.contains("2 letters pruned"), "{}", pruned.out);
    assert_eq!(discarded(), 0);
}

#[test]
fn a_command_that_deletes_is_never_suggested() {
    let paused = ran_alone(&["pause", "orders"]).exits_with(2);
    assert!(
        paused
            .err
            .contains("to pause a queue: redrive queue pause NAME")
            && !paused.err.contains("prune"),
        "{}",
        paused.err
    );
}
