//! Holds what the other threads of a worker may see of a slot: its job and its unsent verdicts.

use std::sync::Arc;
use std::time::Duration;

use crate::job::backoff::Backoff;
use crate::job::job::{JobMeta, Signal};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Mutex};
use crate::worker::latch::lock;

/// A slot, its job, and the verdicts that it has not sent yet.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    pub(crate) running: Mutex<Option<Arc<RunningJob>>>,
    verdicts: Mutex<Vec<Settlement>>,
}

impl SlotState {
    /// Adds verdicts to the chunk. Returns how many it holds.
    pub(crate) fn add_verdicts(&self, more: impl IntoIterator<Item = Settlement>) -> usize {
        let mut verdicts = lock(&self.verdicts);
        verdicts.extend(more);
        verdicts.len()
    }

    /// Takes the chunk, to send it.
    pub(crate) fn take_verdicts(&self) -> Vec<Settlement> {
        std::mem::take(&mut *lock(&self.verdicts))
    }
}

/// A running job.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) lease: LeaseId,
    pub(crate) meta: JobMeta,
    pub(crate) started: Instant,
    pub(crate) deadline: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) overrun: Overrun,
    pub(crate) signal: Arc<Signal>,
}

/// The consequence of exceeding a deadline. In both cases another thread takes over the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// The worker judges the job at once.
    GiveAway,
    /// The handler's transaction holds the lease, so it decides.
    Await,
}
