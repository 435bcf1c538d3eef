//! Holds what the other threads of a worker may see of a slot: its jobs and its unsent verdicts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::job::backoff::Backoff;
use crate::job::job::{JobMeta, Signal};
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Mutex};
use crate::worker::latch::lock;

/// A slot, its job, the jobs that it runs next, and the verdicts that it has not sent yet.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    pub(crate) running: Mutex<Option<Arc<RunningJob>>>,
    chunk: Mutex<VecDeque<ClaimedJob>>,
    verdicts: Mutex<Vec<Settlement>>,
}

impl SlotState {
    /// Takes the next job of the chunk.
    pub(crate) fn next_job(&self) -> Option<ClaimedJob> {
        lock(&self.chunk).pop_front()
    }

    /// Stores a new chunk and takes its first job.
    pub(crate) fn first_job(&self, new_chunk: Vec<ClaimedJob>) -> Option<ClaimedJob> {
        let mut chunk = lock(&self.chunk);
        chunk.extend(new_chunk);
        chunk.pop_front()
    }

    /// Takes the jobs of the chunk, to run them elsewhere.
    pub(crate) fn take_chunk(&self) -> Vec<ClaimedJob> {
        lock(&self.chunk).drain(..).collect()
    }

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
    pub(crate) meta: Arc<JobMeta>,
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
