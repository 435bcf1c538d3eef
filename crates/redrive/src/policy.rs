//! Policies: what is redriven by itself, when, and how much of it at a time.
//!
//! A policy is for failures that time mends: a partner that is away for a weekend, a limit that is
//! lifted at midnight. At each *tick* the oldest open letters that match and are due go back, a
//! bounded batch of them, as with a redrive. The workers run the policies, any of them, one at a
//! time under a fenced lease; there is nothing else to start.

mod listed;
mod tick;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::job::milliseconds;
use crate::name;
use crate::sql;

pub use listed::PolicyStatus;
pub(crate) use tick::{Tick, run_policies};

/// The time between ticks, the letters of a tick, and the generations after which a letter is left
/// alone, unless told otherwise.
const EVERY: Duration = Duration::from_hours(1);
const BATCH: u32 = 50;
const GENERATIONS: u32 = 10;

/// The most letters that one tick of a policy sends back.
pub const LARGEST_POLICY_BATCH: u32 = 10_000;

/// What is redriven by itself.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use std::time::Duration;
/// use redrive::{Act, Hours, Letters, Policy};
///
/// let nightly = Policy::new("partner-nightly", Letters::queue("orders").error_class("Partner"))
///     .every(Duration::from_hours(1))
///     .growth(2.0)
///     .batch(200)
///     .generations(12)
///     .hours(Hours::between(22, 6)?);
/// db.set_policy(&nightly, &Act::new().person("maria@ops-1").why("the partner mends it at night"))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    name: String,
    which: Letters,
    every: Duration,
    growth: f64,
    longest: Option<Duration>,
    batch: u32,
    generations: u32,
    hours: Option<Hours>,
    breaker: PolicyBreaker,
    mode: PolicyMode,
}

/// What a policy does at its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyMode {
    /// It sends letters back.
    #[default]
    Active,
    /// It only tells, in the list of policies and in the audit, how many it would send back.
    DryRun,
    /// It has no ticks.
    Paused,
}

/// What a policy does while the breaker of a queue is not closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyBreaker {
    /// It sends nothing into that queue, and waits.
    #[default]
    Heed,
    /// It sends all the same.
    Ignore,
}

/// The hours of the day, in UTC, in which a policy has its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hours {
    from: u8,
    to: u8,
}

impl Policy {
    /// A policy of this name for these letters; only open ones are taken, whatever the filter says.
    ///
    /// Unless told otherwise it ticks once an hour, sends back 50 letters a tick, leaves a letter
    /// alone after 10 generations, heeds the breaker, and is active at any hour.
    pub fn new(name: impl Into<String>, which: Letters) -> Policy {
        Policy {
            name: name.into(),
            which,
            every: EVERY,
            growth: 1.0,
            longest: None,
            batch: BATCH,
            generations: GENERATIONS,
            hours: None,
            breaker: PolicyBreaker::Heed,
            mode: PolicyMode::Active,
        }
    }

    /// The time from one tick to the next: a second to 366 days. Defaults to an hour.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Policy {
        self.every = every;
        self
    }

    /// By how much a letter's time from death to tick grows with each of its generations: 1 to
    /// 100. Defaults to 1: it goes at each tick. With 2, and a tick an hour, a letter that keeps
    /// dying goes after one hour, two, four, and so on.
    #[must_use]
    pub fn growth(mut self, growth: f64) -> Policy {
        self.growth = growth;
        self
    }

    /// The most that this time grows to, at least that from tick to tick. Defaults to a week.
    #[must_use]
    pub fn longest_delay(mut self, longest: Duration) -> Policy {
        self.longest = Some(longest);
        self
    }

    /// The most letters that a tick sends back: 1 to [`LARGEST_POLICY_BATCH`]. Defaults to 50.
    #[must_use]
    pub fn batch(mut self, batch: u32) -> Policy {
        self.batch = batch;
        self
    }

    /// How often a letter may have been redriven, by whomever, for the policy to send it back once
    /// more. Defaults to 10. After that it stays open, for a person.
    #[must_use]
    pub fn generations(mut self, most: u32) -> Policy {
        self.generations = most;
        self
    }

    /// Ticks only at these hours. A tick that falls outside waits for them. Defaults to any hour.
    #[must_use]
    pub fn hours(mut self, hours: Hours) -> Policy {
        self.hours = Some(hours);
        self
    }

    /// What it does while a breaker is not closed. Defaults to [`PolicyBreaker::Heed`].
    #[must_use]
    pub fn breaker(mut self, breaker: PolicyBreaker) -> Policy {
        self.breaker = breaker;
        self
    }

    /// What it does at its ticks. Defaults to [`PolicyMode::Active`].
    #[must_use]
    pub fn mode(mut self, mode: PolicyMode) -> Policy {
        self.mode = mode;
        self
    }

    /// # Errors
    /// *Invalid* when a number is out of its range, or the filter is one for listing.
    fn check(&self) -> Result<()> {
        name::check("policy", &self.name)?;
        self.which.refuse_after()?;
        let longest = self.longest.unwrap_or(self.every);
        let trouble = if self.which.limit.is_some() {
            "limits its letters by its batch, not by its filter"
        } else if !(Duration::from_secs(1)..=Duration::from_hours(366 * 24)).contains(&self.every) {
            "ticks every second to every 366 days"
        } else if !(1.0..=100.0).contains(&self.growth) {
            "has a growth of 1 to 100"
        } else if longest < self.every || longest > Duration::from_hours(3660 * 24) {
            "has a longest delay of at least its interval, and at most ten years"
        } else if !(1..=LARGEST_POLICY_BATCH).contains(&self.batch) {
            "sends back 1 to 10,000 letters a tick"
        } else if !(1..=100_000).contains(&self.generations) {
            "has a limit of 1 to 100,000 generations"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!(
            "the policy `{}` is not good: a policy {trouble}",
            self.name
        )))
    }
}

impl Hours {
    /// From one hour of the day to another, in UTC, 0 to 23: the first belongs to it, the second
    /// does not. Over midnight when the second is smaller.
    ///
    /// # Errors
    /// *Invalid* when an hour is over 23, or both are the same.
    pub fn between(from: u8, to: u8) -> Result<Hours> {
        if from > 23 || to > 23 || from == to {
            return Err(Error::invalid(format!(
                "the hours {from}-{to} are not good: two different hours of 0 to 23"
            )));
        }
        Ok(Hours { from, to })
    }

    /// The first hour.
    pub fn from(self) -> u8 {
        self.from
    }

    /// The hour at which it ends.
    pub fn to(self) -> u8 {
        self.to
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.from, self.to))
    }
}

impl FromStr for Hours {
    type Err = Error;

    fn from_str(text: &str) -> Result<Hours> {
        let read = |text: &str| text.trim().parse::<u8>().ok();
        match text
            .split_once('-')
            .map(|(from, to)| (read(from), read(to)))
        {
            Some((Some(from), Some(to))) => Hours::between(from, to),
            Some(_) | None => Err(Error::invalid(format!(
                "`{}` are no hours; they look like 22-6",
                text.escape_debug()
            ))),
        }
    }
}

impl PolicyMode {
    /// Every mode.
    pub const ALL: [PolicyMode; 3] = [PolicyMode::Active, PolicyMode::DryRun, PolicyMode::Paused];

    /// The word for it in the database and in the CLI.
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
                    "`{}` is not a mode of a policy; there are {known}",
                    text.escape_debug()
                ))
            })
    }
}

impl Database {
    /// Adds a policy, or changes the one of that name. A new one has its first tick at once.
    ///
    /// # Errors
    /// *Invalid* when the name or a number is not good; when the database refuses or does not
    /// answer.
    pub fn set_policy(&self, policy: &Policy, act: &Act) -> Result<()> {
        policy.check()?;
        let filter = policy.which.filter()?;
        let (policy, act) = (policy.clone(), act.clone());
        self.call("set a policy", move |session| {
            let hour = |pick: fn(Hours) -> u8| policy.hours.map(|hours| i32::from(pick(hours)));
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
                    &hour(Hours::from),
                    &hour(Hours::to),
                    &(policy.breaker == PolicyBreaker::Heed),
                    &policy.mode.as_str(),
                    &act.by(),
                    &act.reason(),
                ],
            )?;
            Ok(())
        })
    }

    /// Pauses a policy, makes it act, or only tell. `false`: there is none of that name.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn set_policy_mode(&self, name: &str, mode: PolicyMode, act: &Act) -> Result<bool> {
        let (name, act) = (name.to_owned(), act.clone());
        self.call("set the mode of a policy", move |session| {
            let doing = format!("set the mode of the policy `{name}`");
            let row = session.query_one(
                &doing,
                &sql::SET_POLICY_MODE,
                &[&name, &mode.as_str(), &act.by(), &act.reason()],
            )?;
            Ok(row.get("found"))
        })
    }

    /// Removes a policy. What it sent back stays where it is. `false`: there is none of that name.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn remove_policy(&self, name: &str, act: &Act) -> Result<bool> {
        let (name, act) = (name.to_owned(), act.clone());
        self.call("remove a policy", move |session| {
            let doing = format!("remove the policy `{name}`");
            let row = session.query_one(
                &doing,
                &sql::REMOVE_POLICY,
                &[&name, &act.by(), &act.reason()],
            )?;
            Ok(row.get("found"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::new("p", Letters::queue("q"))
    }

    #[test]
    fn numbers_out_of_range_say_which() {
        let second = Duration::from_secs(1);
        for (policy, why) in [
            (Policy::new("", Letters::all()), "is empty"),
            (policy().every(Duration::from_millis(999)), "every second"),
            (policy().growth(0.5), "growth"),
            (policy().growth(f64::NAN), "growth"),
            (policy().longest_delay(second), "longest delay"),
            (policy().batch(0), "10,000 letters"),
            (policy().generations(0), "generations"),
            (Policy::new("p", Letters::all().limit(3)), "batch"),
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
    fn hours_are_read_as_they_are_shown() {
        for text in ["22-6", "0-23", "9-17"] {
            assert_eq!(text.parse::<Hours>().expect(text).to_string(), text);
        }
        for text in ["", "9", "9-9", "24-3", "-", "a-b", "1-2-3"] {
            assert!(text.parse::<Hours>().expect_err(text).is_invalid());
        }
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in PolicyMode::ALL {
            assert_eq!(mode.as_str().parse::<PolicyMode>().expect("a mode"), mode);
        }
        assert!("off".parse::<PolicyMode>().is_err());
    }
}
