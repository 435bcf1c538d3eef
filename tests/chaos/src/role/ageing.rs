//! The times after which workers raise a waiting job, or bury one that none of them handles.

use std::time::Duration;

/// How long a job waits until workers raise it, and to which priority.
pub(crate) const AGED: Duration = Duration::from_secs(2);
pub(crate) const AGED_PRIORITY: i16 = 20;
/// How long a job without a worker waits until it is buried.
pub(crate) const UNHANDLED: Duration = Duration::from_secs(1);
