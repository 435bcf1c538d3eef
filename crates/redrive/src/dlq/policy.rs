//! Policies: redrives on a schedule, for failures that pass with time.
//!
//! At each *tick* a policy redrives a bounded batch of its oldest open letters that are due and whose
//! unique keys no live job holds.
//! Any worker runs the policies, one worker per policy under a fenced lease; no other process
//! is needed.

mod hours;
mod listed;
mod tick;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::db::sql;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Policies;
use crate::error::{Error, Result};
use crate::job::milliseconds::milliseconds;
use crate::job::name;
use crate::job::operator::Operator;

pub use hours::UtcHours;
pub use listed::PolicyStatus;
pub(crate) use tick::{Tick, run_policies};

const DEFAULT_POLICY_INTERVAL: Duration = Duration::from_hours(1);
const DEFAULT_POLICY_BATCH: u32 = 50;
const DEFAULT_POLICY_GENERATIONS: u32 = 10;

/// The largest batch of a policy.
pub const MAX_POLICY_BATCH: u32 = 10_000;

/// A redrive on a schedule.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use std::time::Duration;
/// use redrive::dlq::{UtcHours, LetterFilter, Policy};
/// use redrive::Operator;
///
/// let nightly = Policy::new("partner-nightly", LetterFilter::new().queue("orders").error_class("Partner"))
///     .every(Duration::from_hours(1))
///     .growth(2.0)
///     .batch(200)
///     .generations(12)
///     .hours(UtcHours::between(22, 6)?);
/// db.dlq().policies().set(&nightly, &Operator::new("maria@ops-1").reason("the partner recovers at night"))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    name: String,
    filter: LetterFilter,
    every: Duration,
    growth: f64,
    longest: Option<Duration>,
    batch: u32,
    generations: u32,
    hours: Option<UtcHours>,
    breaker: PolicyBreaker,
    mode: PolicyMode,
}

/// The mode of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyMode {
    /// Redrives letters.
    #[default]
    Active,
    /// Redrives nothing, but reports in the list of policies and in the audit log how many
    /// letters it would redrive.
    DryRun,
    /// Does nothing.
    Paused,
}

/// The behavior while the breaker of a queue is open or the queue is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyBreaker {
    /// Waits until the breaker closes and the queue is resumed.
    #[default]
    Heed,
    /// Redrives anyway. The jobs wait.
    Ignore,
}

impl Policy {
    /// Returns a policy for the open letters that the filter selects.
    ///
    /// Defaults: ticks once an hour, redrives 50 letters per tick, stops at 10 generations,
    /// waits for the breaker, active at any hour.
    pub fn new(name: impl Into<String>, filter: LetterFilter) -> Policy {
        Policy {
            name: name.into(),
            filter,
            every: DEFAULT_POLICY_INTERVAL,
            growth: 1.0,
            longest: None,
            batch: DEFAULT_POLICY_BATCH,
            generations: DEFAULT_POLICY_GENERATIONS,
            hours: None,
            breaker: PolicyBreaker::Heed,
            mode: PolicyMode::Active,
        }
    }

    /// Sets the interval between ticks: 1 second to 366 days. Defaults to 1 hour.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Policy {
        self.every = every;
        self
    }

    ///
    /// Sets the factor by which a letter's delay grows with each generation: 1 to 100.
    ///
    /// Defaults to 1: the policy redrives a letter at every tick. With 2 and hourly ticks, it
    /// redrives a letter that keeps dying after one hour, two hours, four hours, and so on.
    #[must_use]
    pub fn growth(mut self, growth: f64) -> Policy {
        self.growth = growth;
        self
    }

    /// Sets the longest delay, at least the interval. Defaults to 7 days.
    #[must_use]
    pub fn longest_delay(mut self, longest: Duration) -> Policy {
        self.longest = Some(longest);
        self
    }

    /// Sets the letters per tick: 1 to 10,000. Defaults to 50.
    #[must_use]
    pub fn batch(mut self, batch: u32) -> Policy {
        self.batch = batch;
        self
    }

    ///
    /// Sets the generation at which the policy leaves a letter open for an operator.
    /// Defaults to 10.
    ///
    /// Redrives by operators count too.
    #[must_use]
    pub fn generations(mut self, most: u32) -> Policy {
        self.generations = most;
        self
    }

    /// Limits ticks to these hours; a tick outside them waits. Defaults to any hour.
    #[must_use]
    pub fn hours(mut self, hours: UtcHours) -> Policy {
        self.hours = Some(hours);
        self
    }

    /// Sets the behavior while the breaker is open or the queue is paused. Defaults to [`PolicyBreaker::Heed`].
    #[must_use]
    pub fn breaker(mut self, breaker: PolicyBreaker) -> Policy {
        self.breaker = breaker;
        self
    }

    /// Sets the mode. Defaults to [`PolicyMode::Active`].
    #[must_use]
    pub fn mode(mut self, mode: PolicyMode) -> Policy {
        self.mode = mode;
        self
    }

    /// # Errors
    /// *Invalid* if a number is out of range, or if the filter has a limit or `after`.
    fn check(&self) -> Result<()> {
        name::check("policy", &self.name)?;
        self.filter.refuse_after()?;
        let longest = self.longest.unwrap_or(self.every);
        let trouble = if self.filter.limit.is_some() {
            "must limit its letters by its batch, not by its filter"
        } else if !(Duration::from_secs(1)..=Duration::from_hours(366 * 24)).contains(&self.every) {
            "must tick at intervals of 1 second to 366 days"
        } else if !(1.0..=100.0).contains(&self.growth) {
            "must have a growth of 1 to 100"
        } else if longest < self.every || longest > Duration::from_hours(3660 * 24) {
            "must have a maximum delay of at least its interval and at most ten years"
        } else if !(1..=MAX_POLICY_BATCH).contains(&self.batch) {
            "must redrive 1 to 10,000 letters per tick"
        } else if !(1..=100_000).contains(&self.generations) {
            "must have a limit of 1 to 100,000 generations"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!(
            "the policy `{}` is invalid: it {trouble}",
            self.name
        )))
    }
}

impl PolicyMode {
    /// All modes.
    pub const ALL: [PolicyMode; 3] = [PolicyMode::Active, PolicyMode::DryRun, PolicyMode::Paused];

    /// Returns the name used in the database and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyMode::Active => "active",
            PolicyMode::DryRun => "dry_run",
            PolicyMode::Paused => "paused",
        }
    }
}

impl fmt::Display for PolicyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<PolicyMode> {
        PolicyMode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| {
                let known = PolicyMode::ALL.map(PolicyMode::as_str).join(", ");
                Error::invalid(format!(
                    "unknown policy mode `{}`; expected one of {known}",
                    text.escape_debug()
                ))
            })
    }
}

impl Policies<'_> {
    /// Adds a policy, or replaces the one of that name. A new policy ticks at once.
    ///
    /// # Errors
    /// *Invalid* if the name or a number is out of range; otherwise if the database rejects
    /// the statement or does not answer.
    pub fn set(&self, policy: &Policy, operator: &Operator) -> Result<()> {
        policy.check()?;
        let filter = policy.filter.parameter()?;
        let (policy, operator) = (policy.clone(), operator.clone());
        self.db.call("set a policy", move |session| {
            let hour = |pick: fn(UtcHours) -> u8| policy.hours.map(|hours| i32::from(pick(hours)));
            session.query_one(
                &format!("set the policy `{}`", policy.name),
                &sql::SET_POLICY,
                &[
                    &policy.name,
                    &filter,
                    &milliseconds(policy.every),
                    &policy.batch.cast_signed(),
                    &policy.generations.cast_signed(),
                    &policy.growth,
                    &policy.longest.map(milliseconds),
                    &hour(UtcHours::from),
                    &hour(UtcHours::to),
                    &(policy.breaker == PolicyBreaker::Heed),
                    &policy.mode.as_str(),
                    &operator.by(),
                    &operator.given_reason(),
                ],
            )?;
            Ok(())
        })
    }

    /// Sets the mode of a policy. Returns whether the policy exists.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn set_mode(&self, name: &str, mode: PolicyMode, operator: &Operator) -> Result<bool> {
        let (name, operator) = (name.to_owned(), operator.clone());
        self.db.call("set the mode of a policy", move |session| {
            let doing = format!("set the mode of the policy `{name}`");
            let row = session.query_one(
                &doing,
                &sql::SET_POLICY_MODE,
                &[
                    &name,
                    &mode.as_str(),
                    &operator.by(),
                    &operator.given_reason(),
                ],
            )?;
            Ok(row.get("found"))
        })
    }

    /// Removes a policy and keeps the letters it redrove. Returns whether the policy
    /// existed.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn remove(&self, name: &str, operator: &Operator) -> Result<bool> {
        let (name, operator) = (name.to_owned(), operator.clone());
        self.db.call("remove a policy", move |session| {
            let doing = format!("remove the policy `{name}`");
            let row = session.query_one(
                &doing,
                &sql::REMOVE_POLICY,
                &[&name, &operator.by(), &operator.given_reason()],
            )?;
            Ok(row.get("found"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::new("p", LetterFilter::new().queue("q"))
    }

    #[test]
    fn numbers_out_of_range_say_which() {
        let second = Duration::from_secs(1);
        for (policy, why) in [
            (Policy::new("", LetterFilter::new()), "is empty"),
            (policy().every(Duration::from_millis(999)), "1 second"),
            (policy().growth(0.5), "growth"),
            (policy().growth(f64::NAN), "growth"),
            (policy().longest_delay(second), "maximum delay"),
            (policy().batch(0), "10,000 letters"),
            (policy().generations(0), "generations"),
            (Policy::new("p", LetterFilter::new().limit(3)), "batch"),
        ] {
            let error = policy.check().expect_err(why);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{error}"
            );
        }
        assert!(policy().every(second).longest_delay(second).check().is_ok());
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in PolicyMode::ALL {
            assert_eq!(mode.as_str().parse::<PolicyMode>().expect("a mode"), mode);
        }
        assert!("off".parse::<PolicyMode>().is_err());
    }
}
