//! The options of a redrive.

use std::time::Duration;

/// The options of a redrive.
///
/// ```
/// use redrive::dlq::RedriveOptions;
///
/// let options = RedriveOptions::new().to_queue("orders.slow").priority(-10);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RedriveOptions {
    pub(crate) to_queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) delay: Option<Duration>,
    /// Whether quarantined and redacted letters go too.
    pub(crate) force: bool,
}

impl RedriveOptions {
    /// Returns the defaults: the letter's queue, priority and attempts, and neither quarantined
    /// nor redacted letters.
    pub fn new() -> RedriveOptions {
        RedriveOptions::default()
    }

    /// Sends the letters to another queue, which they keep.
    pub fn to_queue(mut self, queue: impl Into<String>) -> RedriveOptions {
        self.to_queue = Some(queue.into());
        self
    }

    /// Sets the priority. Within a priority, redriven jobs run after new ones; with a higher priority
    /// they go first.
    pub fn priority(mut self, priority: i16) -> RedriveOptions {
        self.priority = Some(priority);
        self
    }

    /// Sets the attempts per letter.
    pub fn max_attempts(mut self, attempts: u32) -> RedriveOptions {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets the delay before the jobs become ready, by the database's clock. Defaults to none. At
    /// most ten years, rounded up to milliseconds.
    pub fn delay(mut self, delay: Duration) -> RedriveOptions {
        self.delay = (!delay.is_zero()).then_some(delay);
        self
    }

    /// Also redrives quarantined letters, and letters whose payload was redacted, which go back
    /// without the redacted values. Requires a [reason](crate::Operator::reason).
    pub fn force(mut self) -> RedriveOptions {
        self.force = true;
        self
    }
}
