//! How long letters are kept: the retention rules of all runs.

use std::time::Duration;

use redrive::dlq::{LetterState, RetentionAction, RetentionRule};
use redrive::{Database, Operator, Result};

use crate::role::QUEUE;

/// How old the letters are that operators prune.
pub(crate) const PRUNE_AGE: Duration = Duration::from_secs(1);

/// The rules. Quarantined letters are kept forever.
fn rules() -> [RetentionRule; 3] {
    let ms = Duration::from_millis;
    [
        RetentionRule::delete(LetterState::Recovered, ms(1500)),
        RetentionRule::archive(LetterState::Discarded, ms(900)),
        RetentionRule::archive(LetterState::Open, ms(5000)),
    ]
}

/// Returns what happens to letters of a state.
pub(crate) fn action_for(state: &str) -> Option<RetentionAction> {
    let rule = rules()
        .into_iter()
        .find(|rule| rule.state.as_str() == state);
    rule.map(|rule| rule.action)
}

/// Sets the retention rules.
pub(crate) fn set_retention(db: &Database, operator: &Operator) -> Result<()> {
    for rule in rules() {
        db.dlq().retention().set(&rule.queue(QUEUE), operator)?;
    }
    Ok(())
}
