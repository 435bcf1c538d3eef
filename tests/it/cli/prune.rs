//! `prune`: a dry run by default.

use redrive_tests::prelude::*;

use super::with_letters;

#[test]
fn a_prune_by_age_is_a_dry_run_without_yes() {
    let (db, queue, _) = with_letters(3);
    db.run("dlq discard orders --limit 2 --reason tests --yes");
    let discarded = || in_state(&queue, LetterState::Discarded);
    for (dry, to_act) in [
        ("prune --older-than 0s", "To act, add --yes.\n"),
        (
            "prune --older-than 0s --dry-run",
            "To act, add --yes, without --dry-run.\n",
        ),
    ] {
        db.run(dry)
            .shows("2 letters, recovered or discarded more than 0s ago, would be deleted.")
            .shows(to_act);
        assert_eq!(discarded(), 2);
    }
    db.run("prune --older-than 0s --yes")
        .shows("2 letters pruned");
    assert_eq!(discarded(), 0);
}
