//! When a schedule ticks: a cron line in a time zone, or an interval. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::error::{Error, Result};
use crate::job::duration::format_duration;
use crate::job::milliseconds::milliseconds;
use crate::schedule::cron::CronLine;
use crate::schedule::zone;

/// The shortest interval: 1 second.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest interval: 366 days.
pub const MAX_INTERVAL: Duration = Duration::from_hours(366 * 24);

/// When a schedule ticks.
#[derive(Clone, Debug)]
pub(crate) enum Rhythm {
    Cron(CronLine),
    /// Counted from the first tick. In whole milliseconds.
    Every(Duration),
}

impl Rhythm {
    /// Returns the rhythm that the database stores.
    pub(crate) fn stored(
        cron: Option<&str>,
        zone: Option<&str>,
        every: Option<Duration>,
    ) -> Result<Rhythm> {
        match (cron, every) {
            (Some(line), _) => {
                let mut line = CronLine::parse(line)?;
                line.zone = zone::named(zone.unwrap_or("UTC"))?;
                Ok(Rhythm::Cron(line))
            }
            (None, Some(every)) => Rhythm::every(every),
            (None, None) => Err(Error::invalid("it has neither a cron line nor an interval")),
        }
    }

    /// Returns the columns that store it: the cron line, the zone, and the interval.
    pub(crate) fn columns(&self) -> (Option<&str>, Option<&str>, Option<Duration>) {
        match self {
            Rhythm::Cron(line) => (Some(&line.text), line.zone.iana_name(), None),
            Rhythm::Every(interval) => (None, None, Some(*interval)),
        }
    }

    /// Returns the rhythm of an interval, which must be 1 second to 366 days.
    pub(crate) fn every(interval: Duration) -> Result<Rhythm> {
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
            return Err(Error::invalid(format!(
                "the interval is {}; it must be 1 second to 366 days",
                format_duration(interval)
            )));
        }
        let whole = milliseconds(interval).unsigned_abs();
        Ok(Rhythm::Every(Duration::from_millis(whole)))
    }

    /// Returns the first tick after `after`. The ticks of an interval count from `tick`, which is one of
    /// them.
    ///
    /// # Errors
    /// *Invalid* if there is none.
    pub(crate) fn next_after(&self, tick: Timestamp, after: Timestamp) -> Result<Timestamp> {
        let next = match self {
            Rhythm::Cron(line) => line.next_after(after),
            Rhythm::Every(interval) => {
                let past = after.as_microsecond() - tick.as_microsecond();
                let step = micros(*interval);
                let ahead = step.saturating_mul(past.div_euclid(step) + 1);
                tick.checked_add(SignedDuration::from_micros(ahead)).ok()
            }
        };
        next.ok_or_else(|| Error::invalid("the schedule has no next time"))
    }
}

/// Returns the microseconds of a checked interval.
pub(crate) fn micros(interval: Duration) -> i64 {
    i64::try_from(interval.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
