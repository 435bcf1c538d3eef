//! How long letters are kept: the retention rules of all runs.

use std::time::Duration;

use redrive::dlq::{LetterState, RetentionRule};
use redrive::{Database, Operator, Result};

use crate::role::QUEUE;

/// How old the letters are that operators prune.
pub(crate) const PRUNE_AGE: Duration = Duration::from_secs(1);

/// The fate of a letter that was kept for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    Deleted,
    Archived,
}

/// The rules: how long letters of a state are kept. Quarantined letters are kept forever.
const RULES: [(LetterState, Duration, Afterwards); 3] = [
    (
        LetterState::Recovered,
        Duration::from_millis(1500),
        Afterwards::Deleted,
    ),
    (
        LetterState::Discarded,
        Duration::from_millis(900),
        Afterwards::Archived,
    ),
    (
        LetterState::Open,
        Duration::from_secs(5),
        Afterwards::Archived,
    ),
];

/// Returns the fate of letters of a state.
pub(crate) fn rule_of(state: &str) -> Option<Afterwards> {
    let rule = RULES.iter().find(|(of, ..)| of.as_str() == state);
    rule.map(|(.., afterwards)| *afterwards)
}

/// Sets the retention rules.
pub(crate) fn set_retention(db: &Database, operator: &Operator) -> Result<()> {
    for (state, keep, afterwards) in RULES {
        let rule = match afterwards {
            Afterwards::Deleted => RetentionRule::delete(state, keep),
            Afterwards::Archived => RetentionRule::archive(state, keep),
        };
        db.dlq().retention().set(&rule.queue(QUEUE), operator)?;
    }
    Ok(())
}
