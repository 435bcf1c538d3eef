//! Waits of any length, as callers give them.

use std::time::Duration;

use crate::sync::Instant;

/// The longest wait. Adding it to an instant or multiplying it cannot overflow.
pub(crate) const MAX_WAIT: Duration = Duration::from_hours(365 * 24);

/// Returns the moment at which a wait that begins now is over.
pub(crate) fn from_now(wait: Duration) -> Instant {
    Instant::now() + wait.min(MAX_WAIT)
}
