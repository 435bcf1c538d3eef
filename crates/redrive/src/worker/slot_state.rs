//! Holds what the other threads of a worker may see of a slot: its jobs and its unsent verdicts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::job::job::{JobMeta, Signal};
use crate::pipeline::claim::turns::chunks;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Mutex};
use crate::worker::handlers::HandlerOptions;
use crate::worker::latch::lock;

/// Jobs that one slot takes.
pub(crate) enum Chunk {
    /// They run one after the other, and others may take those that wait.
    OneByOne(Vec<ClaimedJob>),
    /// They run as one batch.
    Together(Vec<ClaimedJob>),
}

/// The waiting jobs of a slot.
pub(crate) struct Displaced {
    /// Those that follow its running or last job.
    pub(crate) followers: Vec<ClaimedJob>,
    /// The others, each with its followers.
    pub(crate) turns: Vec<Vec<ClaimedJob>>,
}

/// The next work of a slot.
pub(crate) enum NextRun {
    Job(ClaimedJob),
    Batch(Vec<ClaimedJob>),
}

/// A slot, its job or its batch, the jobs that it runs next, and the verdicts that it has not sent yet.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    /// The running job, or all jobs of the running batch. Empty while the slot is free.
    pub(crate) running: Mutex<Vec<Arc<RunningJob>>>,
    chunk: Mutex<VecDeque<ClaimedJob>>,
    verdicts: Mutex<Vec<Settlement>>,
}

impl SlotState {
    /// Takes the next job of the chunk.
    pub(crate) fn next_job(&self) -> Option<ClaimedJob> {
        lock(&self.chunk).pop_front()
    }

    /// Takes the followers of the running or last job.
    pub(crate) fn take_followers(&self) -> Vec<ClaimedJob> {
        take_followers(&mut lock(&self.chunk))
    }

    /// Stores a new chunk and takes its first job, or the whole batch.
    pub(crate) fn first_run(&self, new_chunk: Chunk) -> Option<NextRun> {
        match new_chunk {
            Chunk::OneByOne(jobs) => {
                let mut chunk = lock(&self.chunk);
                chunk.extend(jobs);
                chunk.pop_front().map(NextRun::Job)
            }
            Chunk::Together(jobs) => Some(NextRun::Batch(jobs)),
        }
    }

    /// When the running job or batch started. `None`: the slot is free.
    pub(crate) fn running_since(&self) -> Option<Instant> {
        lock(&self.running).first().map(|running| running.started)
    }

    /// Takes the jobs of the chunk, to run them elsewhere.
    pub(crate) fn take_chunk(&self) -> Displaced {
        let mut chunk = lock(&self.chunk);
        Displaced {
            followers: take_followers(&mut chunk),
            turns: chunks(chunk.drain(..).collect(), 1, |job| job.follows),
        }
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

/// Takes the jobs at the front that follow the job before them.
fn take_followers(chunk: &mut VecDeque<ClaimedJob>) -> Vec<ClaimedJob> {
    let followers = chunk.iter().take_while(|job| job.follows).count();
    chunk.drain(..followers).collect()
}

/// A running job.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) lease: LeaseId,
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) started: Instant,
    pub(crate) deadline: Duration,
    pub(crate) options: Arc<HandlerOptions>,
    pub(crate) signal: Arc<Signal>,
}
