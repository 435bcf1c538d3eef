//! Retention: how long letters are kept, and what becomes of them then.
//!
//! Without a rule a letter is kept for ever. The workers do what the rules say, a bounded batch at
//! a time, and so does [`Database::retain`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use postgres::Row;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::job::milliseconds;
use crate::letter::LetterState;
use crate::name;
use crate::session::Session;
use crate::sql;

/// How many letters one statement takes away.
pub(crate) const RETAIN_BATCH: i64 = 2_000;

/// A rule: how long the letters of a state are kept, in a queue or in every queue.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use std::time::Duration;
/// use redrive::{Act, LetterState, Retention};
///
/// let month = Duration::from_hours(30 * 24);
/// let act = Act::new().person("maria@ops-1");
/// db.set_retention(&Retention::delete(LetterState::Recovered, month), &act)?;
/// db.set_retention(&Retention::archive(LetterState::Open, 12 * month).queue("orders"), &act)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    queue: Option<String>,
    state: LetterState,
    keep: Duration,
    action: RetentionAction,
    even_open: bool,
}

/// What becomes of a letter whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetentionAction {
    /// It is deleted for good.
    Delete,
    /// It is moved into the archive, whole.
    Archive,
}

/// What the rules would take from a queue now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionDue {
    /// The rule, with the queue it is applied to.
    pub rule: Retention,
    /// How many letters are older than it says.
    pub letters: u64,
}

impl Retention {
    /// Letters of this state are deleted when they have been in it for so long.
    pub fn delete(state: LetterState, keep: Duration) -> Retention {
        Retention {
            queue: None,
            state,
            keep,
            action: RetentionAction::Delete,
            even_open: false,
        }
    }

    /// Letters of this state are moved into the archive when they have been in it for so long.
    pub fn archive(state: LetterState, keep: Duration) -> Retention {
        Retention {
            action: RetentionAction::Archive,
            ..Retention::delete(state, keep)
        }
    }

    /// Only in this queue, where the rule goes before the one for every queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Retention {
        self.queue = Some(queue.into());
        self
    }

    /// Deletes letters even though they wait for somebody: open or quarantined ones. Without this
    /// word, such a rule is refused.
    #[must_use]
    pub fn even_open(mut self) -> Retention {
        self.even_open = true;
        self
    }

    /// The queue it is for; `None`: every one without a rule of its own for this state.
    pub fn for_queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// The state it is for.
    pub fn state(&self) -> LetterState {
        self.state
    }

    /// How long letters are kept.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// What becomes of them then.
    pub fn action(&self) -> RetentionAction {
        self.action
    }

    /// # Errors
    /// *Invalid* when the rule is for letters that are being redriven, or would delete what waits
    /// for somebody without saying so.
    fn check(&self) -> Result<()> {
        if let Some(queue) = &self.queue {
            name::check("queue", queue)?;
        }
        match (self.state, self.action) {
            (LetterState::Redriving, _) => Err(Error::invalid(
                "retention is for open, quarantined, recovered or discarded letters",
            )),
            (LetterState::Open | LetterState::Quarantined, RetentionAction::Delete)
                if !self.even_open =>
            {
                Err(Error::invalid(format!(
                    "{} letters wait for somebody: archive them, or say `even open` to have them deleted",
                    self.state
                )))
            }
            _ => Ok(()),
        }
    }
}

impl RetentionAction {
    /// Each of them.
    pub const ALL: [RetentionAction; 2] = [RetentionAction::Delete, RetentionAction::Archive];

    /// The word for it in the database and in the CLI.
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
                    "`{}` is not delete or archive",
                    text.escape_debug()
                ))
            })
    }
}

impl Database {
    /// Sets a rule; one for the same queue and state is replaced.
    ///
    /// # Errors
    /// *Invalid* when the rule would delete letters that wait for somebody and does not say
    /// [`Retention::even_open`]; when the database refuses or does not answer.
    pub fn set_retention(&self, rule: &Retention, act: &Act) -> Result<()> {
        rule.check()?;
        let (rule, act) = (rule.clone(), act.clone());
        self.call("set retention", move |session| {
            session.query_one(
                &format!("set how long {} letters are kept", rule.state),
                &sql::SET_RETENTION,
                &[
                    &rule.queue,
                    &rule.state.as_str(),
                    &milliseconds(rule.keep),
                    &rule.action.as_str(),
                    &rule.even_open,
                    &act.by(),
                    &act.reason(),
                ],
            )?;
            Ok(())
        })
    }

    /// Removes the rule for a state of a queue, or of every queue. `false`: there is none.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn remove_retention(
        &self,
        queue: Option<&str>,
        state: LetterState,
        act: &Act,
    ) -> Result<bool> {
        let (queue, act) = (queue.map(str::to_owned), act.clone());
        self.call("remove retention", move |session| {
            let row = session.query_one(
                &format!("remove the rule for {state} letters"),
                &sql::REMOVE_RETENTION,
                &[&queue, &state.as_str(), &act.by(), &act.reason()],
            )?;
            Ok(row.get("found"))
        })
    }

    /// Lists the rules, those for every queue first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn retention(&self) -> Result<Vec<Retention>> {
        self.call("list retention", |session| {
            let rows = session.query("list the rules of retention", &sql::RETENTION, &[])?;
            rows.iter().map(rule).collect()
        })
    }

    /// Counts what the rules would take now, queue by queue. Changes nothing.
    ///
    /// # Errors
    /// When the database refuses or does not answer within a minute: it counts rows.
    pub fn retention_due(&self) -> Result<Vec<RetentionDue>> {
        self.call_bulk("count what is due", |session| {
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

    /// Does what the rules say now, in batches, until nothing is due. Answers how many letters
    /// were deleted or archived.
    ///
    /// # Errors
    /// When the database refuses or does not answer; what was taken until then is taken.
    pub fn retain(&self, act: &Act) -> Result<u64> {
        let mut taken = 0;
        loop {
            let act = act.clone();
            let batch = self.call_bulk("apply retention", move |session| {
                let row = session.query_one(
                    "apply retention",
                    &sql::APPLY_RETENTION,
                    &[&RETAIN_BATCH, &"wait", &act.by(), &act.reason()],
                )?;
                Ok(row.get::<_, i64>("taken"))
            })?;
            if batch == 0 {
                return Ok(taken);
            }
            taken += batch.unsigned_abs();
        }
    }
}

/// A worker's share: a batch, unless another worker is at it. Answers whether there is more.
pub(crate) fn retain_a_batch(session: &mut Session) -> Result<bool> {
    let nobody: Option<&str> = None;
    let row = session.query_one(
        "apply retention",
        &sql::APPLY_RETENTION,
        &[&RETAIN_BATCH, &"none", &nobody, &nobody],
    )?;
    let taken: Option<i64> = row.get("taken");
    Ok(taken.is_some_and(|taken| taken >= RETAIN_BATCH))
}

fn rule(row: &Row) -> Result<Retention> {
    let state: LetterState = row.get::<_, &str>("state").parse()?;
    let action: RetentionAction = row.get::<_, &str>("action").parse()?;
    Ok(Retention {
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
    fn nothing_that_waits_is_deleted_without_the_word() {
        let day = Duration::from_hours(24);
        for state in LetterState::ALL {
            let waits = matches!(state, LetterState::Open | LetterState::Quarantined);
            let never = state == LetterState::Redriving;
            for (rule, refused) in [
                (Retention::delete(state, day), waits || never),
                (Retention::delete(state, day).even_open(), never),
                (Retention::archive(state, day), never),
            ] {
                assert_eq!(rule.check().is_err(), refused, "{rule:?}");
            }
        }
        let unnamed = Retention::archive(LetterState::Open, day).queue("");
        assert!(unnamed.check().is_err());
    }
}
