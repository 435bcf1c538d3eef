//! The options of a redrive.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::duration::format_duration;
use crate::job::name;
use crate::job::new_job::{MAX_ATTEMPTS, MAX_DELAY, check_priority};
use crate::job::operator::Operator;

/// The options of a redrive.
///
/// ```
/// use redrive::dlq::RedriveOptions;
///
/// let options = RedriveOptions::new().to_queue("orders.slow").priority(-10);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RedriveOptions {
    pub(crate) to_queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u32>,
    delay: Duration,
    force: Force,
}

/// Whether to redrive quarantined and redacted letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Force {
    #[default]
    No,
    Yes,
}

impl RedriveOptions {
    /// Returns the defaults: the letter's queue, priority and attempts, and neither quarantined
    /// nor redacted letters.
    pub fn new() -> RedriveOptions {
        RedriveOptions::default()
    }

    /// Sends the letters to another queue, which they keep.
    #[must_use]
    pub fn to_queue(mut self, queue: impl Into<String>) -> RedriveOptions {
        self.to_queue = Some(queue.into());
        self
    }

    /// Sets the priority. Within a priority, redriven jobs run after new ones; with a higher priority
    /// they go first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> RedriveOptions {
        self.priority = Some(priority);
        self
    }

    /// Sets the attempts per letter.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> RedriveOptions {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets the delay before the jobs become ready, by the database's clock. Defaults to none. At
    /// most ten years, rounded up to milliseconds.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> RedriveOptions {
        self.delay = delay;
        self
    }

    /// Also redrives quarantined letters, and letters whose payload was redacted, which go back
    /// without the redacted values. Requires a [reason](Operator::reason).
    #[must_use]
    pub fn force(mut self) -> RedriveOptions {
        self.force = Force::Yes;
        self
    }

    /// Checks everything but the reason, which a preview does not have.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(queue) = &self.to_queue {
            name::check("queue", queue)?;
        }
        if let Some(priority) = self.priority {
            check_priority(priority)?;
        }
        if let Some(attempts) = self.max_attempts
            && !(1..=MAX_ATTEMPTS).contains(&attempts)
        {
            return Err(Error::invalid(format!(
                "max_attempts is {attempts}; it must be 1 to {MAX_ATTEMPTS}"
            )));
        }
        if self.delay > MAX_DELAY {
            return Err(Error::invalid(format!(
                "the delay is {}; the limit is ten years",
                format_duration(self.delay)
            )));
        }
        Ok(())
    }

    /// Checks everything.
    pub(crate) fn check_for(&self, operator: &Operator) -> Result<()> {
        self.check()?;
        match operator.given_reason() {
            None if self.is_forced() => Err(Error::invalid("a forced redrive needs a reason")),
            Some(_) | None => Ok(()),
        }
    }

    /// The delay, if there is one.
    pub(crate) fn wait(&self) -> Option<Duration> {
        Some(self.delay).filter(|delay| !delay.is_zero())
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.force == Force::Yes
    }
}
