//! Jobs that run in batches.

use std::time::Duration;

use crate::role::Work;

/// The most jobs of a batch: few, so that many batches are full.
pub(crate) const JOBS: usize = 5;
/// How long a batch waits for more jobs.
pub(crate) const LINGER: Duration = Duration::from_millis(100);

/// One of this many jobs of the main queue runs in a batch.
const SHARE: i64 = 10;

/// Whether the job with this key runs in a batch, unless it has another handler.
pub(crate) fn is_in_batch(key: i64) -> bool {
    key % SHARE == 3
}

/// Whether the handler decides that the job is done. Otherwise, the end of the batch does.
pub(crate) fn is_decided(work: &Work) -> bool {
    work.key / SHARE % 2 == 0
}

/// Whether a failure of the job is one of its batch.
pub(crate) fn fails_batch(work: &Work) -> bool {
    work.key / SHARE % 3 == 0
}
