//! How letters go back.

use std::time::Duration;

use crate::job::setters::setters;

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

    setters! {
        /// Sends the letters to another queue, which they keep.
        pub fn to_queue(self, queue: impl Into<String>) => self.to_queue = Some(queue.into());

        /// Sets the priority. Within a priority, redriven jobs run after new ones; with a higher priority
        /// they go first.
        pub fn priority(self, priority: i16) => self.priority = Some(priority);

        /// Sets the attempts per letter.
        pub fn max_attempts(self, attempts: u32) => self.max_attempts = Some(attempts);

        /// Sets the delay before the jobs become ready, by the database's clock. Defaults to none. At
        /// most ten years, rounded up to milliseconds.
        pub fn delay(self, delay: Duration) => self.delay = Some(delay);

        /// Also redrives quarantined letters, and letters whose payload was redacted, which go back
        /// without the redacted values. Requires a [reason](crate::Operator::reason).
        pub fn force(self) => self.force = true;
    }
}
