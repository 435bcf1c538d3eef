//! Batches, as their handlers receive them, and their settings.

use std::ops::Deref;
use std::time::Duration;

use crate::job::disposition::Disposition;
use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::sync::lock;
use crate::worker::limits;

/// Settings for the batches of one kind; see [`WorkerBuilder::handle_batch`](crate::WorkerBuilder::handle_batch).
#[derive(Clone, Debug)]
#[must_use]
pub struct BatchOptions {
    pub(crate) size: usize,
    pub(crate) linger: Duration,
}

impl BatchOptions {
    /// Returns options for batches of up to `size` jobs.
    ///
    /// Accepts 1 to 1,000 jobs. A batch also starts when its payloads have 8 MiB together.
    pub fn new(size: usize) -> BatchOptions {
        BatchOptions {
            size,
            linger: limits::DEFAULT_LINGER,
        }
    }

    /// Sets how long the first job of a batch waits for more jobs.
    ///
    /// Defaults to 100 milliseconds. Accepts 0 to 1 minute. With 0, a batch has the jobs of one
    /// claim. A stop releases the jobs that wait without charging an attempt.
    pub fn linger(mut self, linger: Duration) -> BatchOptions {
        self.linger = linger;
        self
    }
}

/// The jobs of one kind that a handler receives together.
#[derive(Debug)]
pub struct Batch<P> {
    pub(super) jobs: Vec<BatchJob<P>>,
}

impl<P> Batch<P> {
    /// Returns a batch outside of any queue, for tests that call a handler directly.
    ///
    /// Each job is a [`Job::sample`].
    pub fn sample(payloads: impl IntoIterator<Item = P>) -> Batch<P> {
        let jobs = payloads
            .into_iter()
            .map(|payload| Job::sample(payload).into_job());
        Batch {
            jobs: jobs.map(BatchJob).collect(),
        }
    }

    /// Returns the jobs, in the order of the claim. There is at least one.
    pub fn jobs(&self) -> &[BatchJob<P>] {
        &self.jobs
    }

    /// Returns whether the handler should end soon: the deadline passed, the worker stops, its leases
    /// may be lost, or an operator cancelled every job. See [`Job::is_cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.jobs.iter().all(|job| job.is_cancelled())
    }
}

/// A job of a [`Batch`]: a [`Job`] whose handler may decide about it before the batch ends.
///
/// The last call of [`done`](BatchJob::done) or [`fail`](BatchJob::fail) decides. The end of the
/// handler decides about the other jobs: they are done if it returns `Ok`, and fail with its error,
/// its panic or its deadline otherwise. All verdicts are stored when the batch ends.
#[derive(Debug)]
pub struct BatchJob<P>(pub(super) Job<P>);

impl<P> BatchJob<P> {
    /// Decides that the job is done, also if the batch fails afterwards.
    ///
    /// If the batch exceeds its deadline, the job has the follow-ups that were added until then.
    pub fn done(&self) {
        *lock(&self.0.signal.decision) = Some(Box::new(Ok(())));
    }

    /// Returns what the handler has decided about the job so far, for tests. `None`: the end of the batch
    /// decides.
    ///
    /// ```
    /// use redrive::testing::Decision;
    /// use redrive::{Batch, Failure};
    ///
    /// fn even(batch: &Batch<i64>) -> Result<(), Failure> {
    ///     for job in batch.jobs() {
    ///         match job.payload() {
    ///             0 => job.done(),
    ///             number if number % 2 == 1 => job.fail(Failure::reject("odd")),
    ///             _ => {}
    ///         }
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let batch = Batch::sample([0, 1, 2]);
    /// assert!(even(&batch).is_ok());
    /// let decisions: Vec<_> = batch.jobs().iter().map(|job| job.decision()).collect();
    /// assert_eq!(decisions, [Some(Ok(())), Some(Err(Decision::Reject)), None]);
    /// ```
    pub fn decision(&self) -> Option<Result<(), Disposition>> {
        let last = lock(&self.0.signal.decision).clone()?;
        Some(last.map_err(|failure| failure.decision()))
    }

    /// Decides that the attempt of this job failed. The other jobs are not affected.
    ///
    /// Takes a [`Failure`] or any error, which asks for a retry.
    pub fn fail(&self, failure: impl Into<Failure>) {
        *lock(&self.0.signal.decision) = Some(Box::new(Err(failure.into())));
    }
}

impl<P> Deref for BatchJob<P> {
    type Target = Job<P>;

    fn deref(&self) -> &Job<P> {
        &self.0
    }
}
