//! Holds what the other threads of a worker may see of a slot: its jobs and its unsent verdicts.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::job::job::{JobMeta, Signal};
use crate::pipeline::claim::turns::chunks;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::settlement::Settlement;
use crate::sync::atomic::{AtomicU8, Ordering};
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

/// A chunk of jobs of a queue, which has this place among those of the worker.
pub(crate) type QueuedChunk = (usize, Chunk);

/// The jobs that a slot runs next, of one queue, which has this place among those of the worker.
#[derive(Debug, Default)]
struct Waiting {
    queue: usize,
    jobs: VecDeque<ClaimedJob>,
}

/// A slot, its job or its batch, the jobs that it runs next, and the verdicts that it has not sent yet.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    /// `None` while the slot is free.
    pub(crate) running: Mutex<Option<Arc<Run>>>,
    chunk: Mutex<Waiting>,
    /// Each with the place of its queue among those of the worker.
    verdicts: Mutex<Vec<(usize, Settlement)>>,
}

impl SlotState {
    /// Takes the next job of the chunk.
    pub(crate) fn next_job(&self) -> Option<(usize, ClaimedJob)> {
        let mut chunk = lock(&self.chunk);
        let next = chunk.jobs.pop_front()?;
        Some((chunk.queue, next))
    }

    /// Takes the followers of the running or last job.
    pub(crate) fn take_followers(&self) -> Vec<ClaimedJob> {
        take_followers(&mut lock(&self.chunk).jobs)
    }

    /// Stores the jobs of a new chunk and takes the first one.
    pub(crate) fn first_job(&self, queue: usize, jobs: Vec<ClaimedJob>) -> Option<ClaimedJob> {
        let mut chunk = lock(&self.chunk);
        chunk.queue = queue;
        chunk.jobs.extend(jobs);
        chunk.jobs.pop_front()
    }

    /// When the running job or batch started. `None`: the slot is free.
    pub(crate) fn running_since(&self) -> Option<Instant> {
        lock(&self.running).as_ref().map(|run| run.started)
    }

    /// Whether another slot has taken its place, because its handler is overdue.
    pub(crate) fn is_replaced(&self) -> bool {
        lock(&self.running)
            .as_ref()
            .is_some_and(|run| run.is_overdue())
    }

    /// Takes the jobs of the chunk, to run them elsewhere. Returns their queue, those that follow the running or last job,
    /// and the others, each with its followers.
    pub(crate) fn take_chunk(&self) -> (usize, Vec<ClaimedJob>, Vec<Vec<ClaimedJob>>) {
        let mut chunk = lock(&self.chunk);
        let followers = take_followers(&mut chunk.jobs);
        let turns = chunks(chunk.jobs.drain(..).collect(), 1, |job| job.follows);
        (chunk.queue, followers, turns)
    }

    /// Adds a verdict to the chunk. Returns how many it holds.
    pub(crate) fn add_verdict(&self, queue: usize, verdict: Settlement) -> usize {
        let mut verdicts = lock(&self.verdicts);
        verdicts.push((queue, verdict));
        verdicts.len()
    }

    /// Takes the chunk, to send it.
    pub(crate) fn take_verdicts(&self) -> Vec<(usize, Settlement)> {
        std::mem::take(&mut *lock(&self.verdicts))
    }
}

/// Takes the jobs at the front that follow the job before them.
fn take_followers(chunk: &mut VecDeque<ClaimedJob>) -> Vec<ClaimedJob> {
    let followers = chunk.iter().take_while(|job| job.follows).count();
    chunk.drain(..followers).collect()
}

/// What a slot runs: a job, or the jobs of a batch.
#[derive(Debug)]
pub(crate) struct Run {
    /// The place of its queue among those of the worker.
    pub(crate) queue: usize,
    pub(crate) started: Instant,
    pub(crate) deadline: Duration,
    /// How long to keep its jobs if they are done.
    pub(crate) keep_done: Option<Duration>,
    pub(crate) options: Arc<HandlerOptions>,
    pub(crate) first: RunningJob,
    /// The other jobs of a batch.
    pub(crate) others: Vec<RunningJob>,
    /// Who has taken the jobs. 0: nobody yet.
    pub(crate) taken: AtomicU8,
}

/// Who takes the jobs of a run, to judge or to release them. Only the first one does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TakenBy {
    /// The slot, whose handler has ended.
    Slot = 1,
    /// The watchdog, which replaces the slot.
    Watchdog = 2,
    /// A stop of the worker.
    Stop = 3,
}

impl Run {
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &RunningJob> + Clone {
        iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn size(&self) -> usize {
        1 + self.others.len()
    }

    /// Takes the jobs. Returns `false` if another thread has.
    pub(crate) fn take(&self, by: TakenBy) -> bool {
        let taken = self
            .taken
            .compare_exchange(0, by as u8, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok()
    }

    /// Returns whether a thread has taken the jobs. If none has, the one that takes them sees what this thread did before.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.fetch_or(0, Ordering::AcqRel) != 0
    }

    /// Leaves the jobs to a stop, as those of a slot that was replaced, because their thread has panicked.
    pub(crate) fn abandon(&self) {
        let by = TakenBy::Watchdog as u8;
        self.taken.store(by, Ordering::Release);
    }

    /// Whether the watchdog has taken the jobs.
    pub(crate) fn is_overdue(&self) -> bool {
        self.taken.load(Ordering::Acquire) == TakenBy::Watchdog as u8
    }

    pub(crate) fn ran(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Returns the run time of each job: its share, so that the sum of all is the time of the slot.
    pub(crate) fn share(&self, now: Instant) -> Duration {
        self.ran(now) / u32::try_from(self.size()).unwrap_or(1)
    }
}

/// A running job.
#[derive(Clone, Debug)]
pub(crate) struct RunningJob {
    pub(crate) lease: LeaseId,
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) signal: Arc<Signal>,
}

impl RunningJob {
    pub(crate) fn of(claimed: &ClaimedJob) -> RunningJob {
        RunningJob {
            lease: claimed.lease,
            meta: Arc::clone(&claimed.meta),
            signal: Arc::default(),
        }
    }
}
