//! Dispositions: what a handler asks to happen to its job.

use std::time::Duration;

/// The next step that the handler asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// Retry after the backoff of the kind.
    Retry,
    /// Retry after this delay.
    RetryAfter(Duration),
    /// Dead-letter the job at once.
    Reject,
    /// Run the job again after this delay, without counting the attempt.
    Snooze(Duration),
    /// Run the job again when its dependency recovers, without counting the attempt.
    Outage,
    /// The worker could not run or settle the job: run it again soon, with a counted refund of the attempt.
    Interrupted,
}
