//! Retention: how long letters are kept, and whether they are then deleted or archived.
//!
//! A letter without a rule is kept forever. Workers apply the rules in bounded batches, and so
//! does [`RetentionRules::apply`].

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::Duration;

use postgres::Row;

use crate::db::session::Session;
use crate::db::sql;
use crate::dlq::handle::RetentionRules;
use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::milliseconds::milliseconds;
use crate::job::name;
use crate::job::operator::Operator;

/// The letters per statement.
pub(crate) const RETAIN_BATCH: i64 = 2_000;

/// A rule: how long to keep the letters of a state, in one queue or in all.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use std::time::Duration;
/// use redrive::dlq::{LetterState, RetentionRule};
/// use redrive::Operator;
///
/// let month = Duration::from_hours(30 * 24);
/// let operator = Operator::new("maria@ops-1");
/// db.dlq().retention().set(&RetentionRule::delete(LetterState::Recovered, month), &operator)?;
/// db.dlq().retention().set(&RetentionRule::archive(LetterState::Open, 12 * month).queue("orders"), &operator)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    queue: Option<String>,
    state: LetterState,
    keep: Duration,
    action: RetentionAction,
    even_open: bool,
}

/// The action at the end of the retention period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetentionAction {
    /// Delete the letter.
    Delete,
    /// Move the whole letter into the archive.
    Archive,
}

/// The letters of a queue that a rule would remove now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionDue {
    /// The rule, with the queue it applies to.
    pub rule: RetentionRule,
    /// The number of letters.
    pub letters: u64,
}

impl RetentionRule {
    /// Deletes letters that have been in this state for longer than `keep`.
    pub fn delete(state: LetterState, keep: Duration) -> RetentionRule {
        RetentionRule {
            queue: None,
            state,
            keep,
            action: RetentionAction::Delete,
            even_open: false,
        }
    }

    /// Archives letters that have been in this state for longer than `keep`.
    pub fn archive(state: LetterState, keep: Duration) -> RetentionRule {
        RetentionRule {
            action: RetentionAction::Archive,
            ..RetentionRule::delete(state, keep)
        }
    }

    /// Limits the rule to this queue, where it takes precedence over the rule for all
    /// queues.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> RetentionRule {
        self.queue = Some(queue.into());
        self
    }

    /// Allows a rule to delete open or quarantined letters. Without this, such a rule is
    /// rejected.
    #[must_use]
    pub fn even_open(mut self) -> RetentionRule {
        self.even_open = true;
        self
    }

    /// Returns the queue; `None` is every queue without a more specific rule.
    pub fn for_queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// Returns the state.
    pub fn state(&self) -> LetterState {
        self.state
    }

    /// Returns the retention period.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Returns the action.
    pub fn action(&self) -> RetentionAction {
        self.action
    }

    /// # Errors
    /// *Invalid* if the rule is for redriving letters, or deletes open or quarantined
    /// letters without [`even_open`](RetentionRule::even_open).
    fn check(&self) -> Result<()> {
        if let Some(queue) = &self.queue {
            name::check("queue", queue)?;
        }
        match (self.state, self.action) {
            (LetterState::Redriving, _) => Err(Error::invalid(
                "a retention rule is for open, quarantined, recovered or discarded letters",
            )),
            (LetterState::Open | LetterState::Quarantined, RetentionAction::Delete)
                if !self.even_open =>
            {
                Err(Error::invalid(format!(
                    "{} letters await a decision; archive them, or set `even_open` to delete them",
                    self.state
                )))
            }
            _ => Ok(()),
        }
    }
}

impl RetentionAction {
    /// All actions.
    pub const ALL: [RetentionAction; 2] = [RetentionAction::Delete, RetentionAction::Archive];

    /// Returns the name used in the database and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            RetentionAction::Delete => "delete",
            RetentionAction::Archive => "archive",
        }
    }
}

impl fmt::Display for RetentionAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RetentionAction {
    type Err = Error;

    fn from_str(text: &str) -> Result<RetentionAction> {
        RetentionAction::ALL
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "unknown retention action `{}`; expected delete or archive",
                    text.escape_debug()
                ))
            })
    }
}

impl RetentionRules<'_> {
    /// Sets a rule, replacing the one for the same queue and state.
    ///
    /// # Errors
    /// *Invalid* if the rule deletes open or quarantined letters without
    /// [`RetentionRule::even_open`]; otherwise if the database rejects the statement or
    /// does not answer.
    pub fn set(&self, rule: &RetentionRule, operator: &Operator) -> Result<()> {
        rule.check()?;
        let (rule, operator) = (rule.clone(), operator.clone());
        self.db.call("set retention", move |session| {
            session.query_one(
                &format!("set how long {} letters are kept", rule.state),
                &sql::SET_RETENTION,
                &[
                    &rule.queue,
                    &rule.state.as_str(),
                    &milliseconds(rule.keep),
                    &rule.action.as_str(),
                    &rule.even_open,
                    &operator.by(),
                    &operator.given_reason(),
                ],
            )?;
            Ok(())
        })
    }

    /// Removes the rule for a state, of one queue or of all. Returns whether it existed.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn remove(
        &self,
        queue: Option<&str>,
        state: LetterState,
        operator: &Operator,
    ) -> Result<bool> {
        let (queue, operator) = (queue.map(str::to_owned), operator.clone());
        self.db.call("remove retention", move |session| {
            let row = session.query_one(
                &format!("remove the rule for {state} letters"),
                &sql::REMOVE_RETENTION,
                &[
                    &queue,
                    &state.as_str(),
                    &operator.by(),
                    &operator.given_reason(),
                ],
            )?;
            Ok(row.get("found"))
        })
    }

    /// Returns the rules, those for all queues first.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn list(&self) -> Result<Vec<RetentionRule>> {
        self.db.call("list retention", |session| {
            let rows = session.query("list the retention rules", &sql::RETENTION, &[])?;
            rows.iter().map(rule).collect()
        })
    }

    /// Counts the letters that the rules would remove now, per queue. Changes nothing.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer within a minute.
    pub fn due(&self) -> Result<Vec<RetentionDue>> {
        self.db.call_bulk("count what is due", |session| {
            let rows = session.query("count what is due", &sql::RETENTION_DUE, &[])?;
            let due = |row: &Row| {
                Ok(RetentionDue {
                    rule: rule(row)?,
                    letters: row.get::<_, i64>("letters").unsigned_abs(),
                })
            };
            rows.iter().map(due).collect()
        })
    }

    /// Applies the rules in batches until no letter is due. Returns the number of deleted
    /// or archived letters.
    ///
    /// # Errors
    /// If the database rejects a statement or does not answer. Letters removed before the
    /// error stay removed.
    pub fn apply(&self, operator: &Operator) -> Result<u64> {
        self.apply_while(operator, |_| ControlFlow::Continue(()))
    }

    /// Applies the rules as [`apply`](RetentionRules::apply) does, and stops when `go_on`
    /// breaks.
    ///
    /// Calls `go_on` after each batch with the number removed so far.
    ///
    /// # Errors
    /// Those of [`apply`](RetentionRules::apply).
    pub fn apply_while(
        &self,
        operator: &Operator,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut taken = 0;
        loop {
            let operator = operator.clone();
            let batch = self.db.call_bulk("apply retention", move |session| {
                let row = session.read_committed("apply retention", |session| {
                    session.query_one(
                        "apply retention",
                        &sql::APPLY_RETENTION,
                        &[
                            &RETAIN_BATCH,
                            &"wait",
                            &operator.by(),
                            &operator.given_reason(),
                        ],
                    )
                })?;
                Ok(row.get::<_, i64>("taken"))
            })?;
            taken += batch.unsigned_abs();
            if batch == 0 || go_on(taken).is_break() {
                return Ok(taken);
            }
        }
    }
}

/// Applies one batch for a worker, unless another worker is applying the rules. Returns whether
/// letters remain.
pub(crate) fn retain_a_batch(session: &mut Session) -> Result<bool> {
    let nobody: Option<&str> = None;
    let row = session.query_one(
        "apply retention",
        &sql::APPLY_RETENTION,
        &[&RETAIN_BATCH, &"skip", &nobody, &nobody],
    )?;
    let taken: Option<i64> = row.get("taken");
    Ok(taken.is_some_and(|taken| taken >= RETAIN_BATCH))
}

fn rule(row: &Row) -> Result<RetentionRule> {
    let state: LetterState = row.get::<_, &str>("state").parse()?;
    let action: RetentionAction = row.get::<_, &str>("action").parse()?;
    Ok(RetentionRule {
        queue: row.get("queue"),
        state,
        keep: Duration::from_millis(row.get::<_, i64>("keep_ms").unsigned_abs()),
        action,
        even_open: action == RetentionAction::Delete
            && matches!(state, LetterState::Open | LetterState::Quarantined),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_deletes_open_letters_only_with_even_open() {
        let day = Duration::from_hours(24);
        for state in LetterState::ALL {
            let waits = matches!(state, LetterState::Open | LetterState::Quarantined);
            let never = state == LetterState::Redriving;
            for (rule, refused) in [
                (RetentionRule::delete(state, day), waits || never),
                (RetentionRule::delete(state, day).even_open(), never),
                (RetentionRule::archive(state, day), never),
            ] {
                assert_eq!(rule.check().is_err(), refused, "{rule:?}");
            }
        }
        let unnamed = RetentionRule::archive(LetterState::Open, day).queue("");
        assert!(unnamed.check().is_err());
    }
}
