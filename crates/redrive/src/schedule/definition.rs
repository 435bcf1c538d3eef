//! Defines a schedule.

use std::time::Duration;

use crate::dlq::policy::Policy;
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::NewJob;
use crate::job::setters::setters;
use crate::schedule::cron::CronLine;
use crate::schedule::missed::Missed;
use crate::schedule::overlap::Overlap;
use crate::schedule::rhythm::Rhythm;
use crate::schedule::zone;

/// A job that is enqueued, or letters that are redriven, by a cron line or at an interval.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use redrive::schedule::{Missed, Schedule};
/// use redrive::{NewJob, Operator};
///
/// let nightly = Schedule::cron("nightly-report", "0 8 * * MON-FRI")?
///     .zone("Europe/Berlin")?
///     .missed(Missed::Once)
///     .job("reports", NewJob::raw("report", r#"{"format": "pdf"}"#)?);
/// db.schedules().sync(&[nightly], &Operator::new("reports 1.4"))?;
/// # Ok(()) }
/// ```
///
/// # Daylight saving time
///
/// A *fixed time* names its minute and hour by numbers, lists or ranges. Any other line, with `*` or a step such
/// as `*/5` in its seconds, minutes or hours, follows real time.
///
/// | line, in Europe/Berlin | the clock goes forward (02:00 → 03:00) | the clock goes back (03:00 → 02:00) |
/// |---|---|---|
/// | `30 2 * * *` (fixed time) | once, at 03:00, just after the gap | once, at the first 02:30 |
/// | `0,30 2 * * *` (fixed times) | once, at 03:00 | each once, at the first 02:00 and 02:30 |
/// | `0 * * * *`, `*/30 * * * *` | the hour that does not exist is skipped | both hours run |
/// | an interval | runs on | runs on |
#[derive(Clone, Debug)]
#[must_use]
pub struct Schedule {
    pub(crate) name: String,
    pub(crate) rhythm: Rhythm,
    pub(crate) action: Option<Action>,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
}

/// What a tick does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Enqueues the job in the queue.
    Enqueue(String, Box<NewJob>),
    Redrive(Policy),
}

impl Schedule {
    /// Returns a schedule that ticks by a cron line, in UTC unless [`zone`](Schedule::zone) is called.
    ///
    /// A line has five fields: minute, hour, day of the month, month and day of the week. A field of seconds may
    /// come first. `*`, lists, ranges, steps, names such as `MON` and `JAN`, `L` (last), `W` (nearest working day)
    /// and `#` (`MON#1`: the first Monday) are accepted, as are `@hourly`, `@daily`, `@weekly`, `@monthly` and
    /// `@yearly`. If both days are restricted, either must match, as in other crons.
    ///
    /// # Errors
    /// *Invalid* if the name or the line is invalid. The message contains the position of the mistake.
    pub fn cron(name: impl Into<String>, line: &str) -> Result<Schedule> {
        Schedule::with(name.into(), Rhythm::Cron(CronLine::parse(line)?))
    }

    /// Returns a schedule that ticks at an interval of 1 second to 366 days, rounded up to milliseconds.
    ///
    /// The first tick is one interval after the schedule is set. Later ones count from it, so a late tick delays
    /// no other.
    ///
    /// # Errors
    /// *Invalid* if the name is invalid or the interval is out of range.
    pub fn every(name: impl Into<String>, interval: Duration) -> Result<Schedule> {
        Schedule::with(name.into(), Rhythm::every(interval)?)
    }

    fn with(name: String, rhythm: Rhythm) -> Result<Schedule> {
        name::check("schedule", &name)?;
        Ok(Schedule {
            name,
            rhythm,
            action: None,
            missed: Missed::default(),
            overlap: Overlap::default(),
        })
    }

    /// Sets the time zone of the cron line by its IANA name. Defaults to UTC.
    ///
    /// # Errors
    /// *Invalid* if this process does not know the zone, or if the schedule has an interval.
    pub fn zone(mut self, zone: &str) -> Result<Schedule> {
        match &mut self.rhythm {
            Rhythm::Cron(line) => line.zone = zone::named(zone)?,
            Rhythm::Every(_) => {
                return Err(Error::invalid(format!(
                    "the schedule `{}` has an interval, which needs no time zone",
                    self.name
                )));
            }
        }
        Ok(self)
    }

    setters! {
        /// Sets the queue and the job of each tick: its kind, payload, priority, attempts, headers and expiry.
        ///
        /// The job cannot have a delay, a unique key or a group, and its headers have at most 64,000 bytes.
        /// [`NewJob::without_keys`] takes off those that its type gave.
        pub fn job(self, queue: impl Into<String>, job: NewJob) =>
            self.action = Some(Action::Enqueue(queue.into(), Box::new(job)));

        /// Sets the policy whose letters each tick redrives, instead of a job. Missed ticks run once, and never overlap.
        pub fn redrive(self, policy: Policy) => self.action = Some(Action::Redrive(policy));

        /// Sets the policy for missed ticks. Defaults to [`Missed::Once`].
        pub fn missed(self, missed: Missed) => self.missed = missed;

        /// Sets the behavior of a tick while an earlier job is live. Defaults to [`Overlap::Allow`].
        pub fn overlap(self, overlap: Overlap) => self.overlap = overlap;
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks the rest, and returns what a tick does.
    pub(crate) fn checked(&self) -> Result<&Action> {
        let invalid =
            |why: &str| Error::invalid(format!("the schedule `{}` is invalid: {why}", self.name));
        let action = self
            .action
            .as_ref()
            .ok_or_else(|| invalid("it has neither a job nor a policy"))?;
        let (queue, job) = match action {
            Action::Enqueue(queue, job) => (queue, job),
            Action::Redrive(policy) => return policy.filter().map(|_| action),
        };
        name::check("queue", queue)?;
        job.check(queue)?;
        if !job.delay.is_zero() || job.unique_key.is_some() || job.group.is_some() {
            return Err(invalid(
                "its job cannot have a delay, a unique key or a group; see NewJob::without_keys and Overlap::Skip",
            ));
        }
        Ok(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> NewJob {
        NewJob::raw("report", "{}").expect("a job")
    }

    fn daily() -> Schedule {
        Schedule::cron("daily", "@daily").expect("a schedule")
    }

    #[test]
    fn an_invalid_schedule_says_why() {
        let minute = Duration::from_mins(1);
        for (schedule, why) in [
            (daily(), "neither a job nor a policy"),
            (daily().job("", job()), "queue name"),
            (daily().job("q", job().delay(minute)), "a delay"),
            (daily().job("q", job().unique("k")), "a unique key"),
            (daily().job("q", job().group("g")), "or a group"),
            (daily().job("q", job().priority(1001)), "priority"),
            (daily().job("q", job().header("redrive-x", "1")), "reserved"),
        ] {
            let error = schedule.checked().expect_err(why);
            error.assert_invalid(why);
        }
        let good = job().unique("k").group("g").without_keys();
        let good = daily().job("q", good.header("a", "b").expires_in(minute));
        assert!(good.checked().is_ok());
        assert!(Schedule::cron("", "@daily").is_err() && Schedule::every("", minute).is_err());
        let zoned = Schedule::every("e", minute).and_then(|every| every.zone("UTC"));
        assert!(zoned.expect_err("a zone").to_string().contains("interval"));
    }
}
