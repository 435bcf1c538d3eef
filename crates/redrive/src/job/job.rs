//! Jobs, as their handlers receive them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::job::checkpoint::Checkpoints;
use crate::job::deciding_error::JobCancelled;
use crate::job::failure::Failure;
use crate::job::follow_up::FollowUp;
use crate::job::headers::{CHECKPOINT, Headers, SCHEDULE};
use crate::job::id::ids;
use crate::job::new_job::NewJob;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Instant, Mutex, lock};

ids! {
    /// The id of a job, and of the letter it may become.
    ///
    /// It stays the same through retries, death and redrive, and is never reused.
    JobId = "job";
}

/// The state that a running handler shares with the rest of the worker.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The handler should end: deadline, cancel, stop, or an untrusted lease.
    pub(crate) cancelled: AtomicBool,
    /// An operator cancelled the job, so a failure is final.
    pub(crate) by_operator: AtomicBool,
    /// The worker stops, so a failure is not the job's fault.
    pub(crate) by_stop: AtomicBool,
    /// The checkpoints that the handler saved for a later attempt.
    pub(crate) checkpoints: Checkpoints,
    /// The follow-ups that the handler has added so far, in the order of the calls.
    pub(crate) follow_ups: Mutex<Vec<FollowUp>>,
    /// The last decision of the handler of a batch about the job. It may change until the batch ends.
    pub(crate) decision: Mutex<Option<Box<Result<(), Failure>>>>,
    /// The transaction of the handler, if it settles its job in one.
    pub(crate) transaction: OnceLock<OpenTransaction>,
}

impl Signal {
    /// Tells the handler that an operator cancelled its job.
    pub(crate) fn cancel_by_operator(&self) {
        self.by_operator.store(true, Ordering::Relaxed);
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Tells the handler that its worker stops and waits no longer.
    pub(crate) fn cancel_by_stop(&self) {
        self.by_stop.store(true, Ordering::Relaxed);
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// A transaction of a session of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) pid: i32,
    pub(crate) began: SystemTime,
    /// A lease that changes after the first snapshot cannot be settled (SQLSTATE 40001).
    pub(crate) keeps_snapshot: bool,
}

/// A job, as its handler receives it.
#[derive(Debug)]
pub struct Job<P> {
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) payload: P,
    pub(crate) signal: Arc<Signal>,
}

/// A claimed job without its payload. The slot, the handler and the settler share it.
#[derive(Clone, Debug)]
pub(crate) struct JobMeta {
    pub(crate) id: JobId,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) generation: u32,
    pub(crate) priority: i16,
    pub(crate) enqueued_at: SystemTime,
    /// The job holds a unique key, which its end must free.
    pub(crate) is_unique: bool,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) headers: Headers,
    /// How long the job has met nothing but outages, at the claim.
    pub(crate) outage_age: Option<Duration>,
    /// The time from the first enqueue to the claim, by the database's clock.
    pub(crate) age: Duration,
    /// The time from ready to the claim, by the database's clock.
    pub(crate) wait: Duration,
    /// The time of the claim, by this process's clock.
    pub(crate) claimed: Instant,
}

impl JobMeta {
    /// Returns the time to start that the job has exceeded since its enqueue, or since the tick that it is for; `None`:
    /// it may start.
    pub(crate) fn expired(&self, now: Instant) -> Option<Duration> {
        let limit = self.headers.expires_in()?;
        let tick = self.headers.scheduled_for();
        let late = tick.and_then(|tick| self.enqueued_at.duration_since(tick).ok());
        let age = self.age + late.unwrap_or_default() + now.saturating_duration_since(self.claimed);
        (age > limit).then_some(limit)
    }
}

impl<P> Job<P> {
    /// Returns the payload.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Returns the id. It stays the same on every attempt and after a redrive, so it is a good
    /// idempotency key.
    pub fn id(&self) -> JobId {
        self.meta.id
    }

    /// Returns the name of the queue.
    pub fn queue(&self) -> &str {
        &self.meta.queue
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.meta.kind
    }

    /// Returns the number of this attempt, from 1, within the generation.
    pub fn attempt(&self) -> u32 {
        self.meta.attempt
    }

    /// Returns the number of attempts before the job becomes a dead letter.
    pub fn max_attempts(&self) -> u32 {
        self.meta.max_attempts
    }

    /// Returns whether a failure of this attempt dead-letters the job.
    pub fn is_last_attempt(&self) -> bool {
        self.meta.attempt >= self.meta.max_attempts
    }

    /// Returns how many times the job has been redriven.
    pub fn generation(&self) -> u32 {
        self.meta.generation
    }

    /// Returns the priority.
    pub fn priority(&self) -> i16 {
        self.meta.priority
    }

    /// Returns the [group](crate::NewJob::group) of the job; `None`: it has none.
    pub fn group(&self) -> Option<&str> {
        self.meta.group.as_deref()
    }

    /// Returns when the job was first enqueued, by the database's clock.
    pub fn enqueued_at(&self) -> SystemTime {
        self.meta.enqueued_at
    }

    /// Returns the time of the tick for which a [schedule](crate::schedule) enqueued the job; `None`: no
    /// schedule did.
    ///
    /// It is the planned time, also if the tick ran late, and stays the same on retries and after a redrive. After a
    /// manual trigger, it is the time of the trigger.
    pub fn scheduled_for(&self) -> Option<SystemTime> {
        self.meta.headers.scheduled_for()
    }

    /// Returns the name of the schedule that enqueued the job.
    pub fn schedule(&self) -> Option<&str> {
        self.meta.headers.get(SCHEDULE)
    }

    /// Returns the headers, by name.
    ///
    /// The job of a captured failure has those of the failure, and `redrive-source` and
    /// `redrive-position`. A job with a stored [checkpoint](Job::checkpoint) or
    /// [progress](Job::progress) has `redrive-checkpoint` and `redrive-progress`.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.meta.headers.0
    }

    /// Saves a checkpoint, from which a later attempt can resume.
    ///
    /// The call takes no round trip: the next renewal of the lease stores the last checkpoint, at
    /// most once per third of the lease, and so does a failure of the attempt. A crash, or a stop that
    /// does not wait for the handler, loses at most the checkpoints since the last renewal. In a handler's
    /// transaction at REPEATABLE READ or SERIALIZABLE, only a failure stores them. A
    /// checkpoint survives retries, crashes, death and redrive, and ends with the job. It is a header of the job and of
    /// its letter, so redactions by pattern apply to it, and redactions by path do not.
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// fn import(job: &Job<Vec<String>>) -> Result<(), Failure> {
    ///     let rows = job.payload();
    ///     let done: usize = job.last_checkpoint()?.unwrap_or(0);
    ///     for (row, _text) in rows.iter().enumerate().skip(done) {
    ///         // … import the row, then:
    ///         job.checkpoint(&(row + 1))?;
    ///         job.progress((row + 1) as f64 / rows.len() as f64, "rows");
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let job = Job::sample(vec!["a".to_owned(), "b".to_owned()]);
    /// assert!(import(&job).is_ok());
    /// assert_eq!(job.last_checkpoint::<usize>()?, Some(2));
    /// # Ok::<(), redrive::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* if the value cannot be JSON, or if its text and the headers of the job exceed 64
    /// KiB together. The earlier checkpoint is kept.
    pub fn checkpoint<T: Serialize>(&self, value: &T) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::invalid("the checkpoint cannot be serialized as JSON").caused_by(error)
        })?;
        self.meta.headers.check_checkpoint(&text)?;
        self.signal.checkpoints.save(text);
        Ok(())
    }

    /// Returns the last [checkpoint](Job::checkpoint) of this attempt or an earlier one.
    ///
    /// # Errors
    /// *Invalid* if it is no `T`, for example after an update of the program or a redaction.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let saved = self.signal.checkpoints.last();
        let Some(text) = saved.as_deref().or(self.meta.headers.get(CHECKPOINT)) else {
            return Ok(None);
        };
        serde_json::from_str(text).map(Some).map_err(|error| {
            let expected = std::any::type_name::<T>();
            Error::invalid(format!(
                "the checkpoint of job {} is no {expected}",
                self.meta.id
            ))
            .caused_by(error)
        })
    }

    /// Reports how much is done, from 0.0 to 1.0, and the current step.
    ///
    /// Operators see the last report in `redrive job show` and in the letter, as the header
    /// `redrive-progress`. It is stored together with the [checkpoint](Job::checkpoint). Keeps up to
    /// 200 bytes of the step, and is dropped if the headers of the job leave no room.
    pub fn progress(&self, fraction: f64, step: &str) {
        self.signal.checkpoints.report(fraction, step);
    }

    /// Adds a follow-up: a job that is stored together with the end of this one, in the same queue or
    /// in that of its [payload's type](crate::Payload::QUEUE).
    ///
    /// If the handler returns `Ok`, the transaction that ends this job stores its follow-ups, once.
    /// If the handler fails, panics or exceeds its deadline, or if the lease was lost, they are
    /// dropped, and the next attempt adds its own. At most 100 follow-ups per job, with payloads of
    /// at most 4 MiB together. Delay, priority, attempts, headers and expiry work as in
    /// [`enqueue_job`](crate::Queue::enqueue_job). A follow-up with a unique key that a live job
    /// holds is not stored; the key of this job is free by then.
    ///
    /// ```
    /// use redrive::{Failure, Job, NewJob, Payload};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Payload)]
    /// #[payload(kind = "charge")]
    /// struct Charge { order: i64 }
    /// #[derive(Serialize, Deserialize, Payload)]
    /// #[payload(kind = "ship")]
    /// struct Ship { order: i64 }
    ///
    /// fn charge(job: &Job<Charge>) -> Result<(), Failure> {
    ///     let order = job.payload().order;
    ///     // … charge the customer, then:
    ///     job.then(NewJob::new(&Ship { order })?)?;
    ///     Ok(())
    /// }
    ///
    /// let job = Job::sample(Charge { order: 42 });
    /// assert!(charge(&job).is_ok());
    /// assert_eq!(job.follow_ups()[0].kind(), "ship");
    /// ```
    ///
    /// If the database rejects a follow-up, for example because the worker's role may not enqueue,
    /// nothing is stored and the attempt fails with that error. A follow-up without the headers
    /// `traceparent` and `tracestate` gets those of this job.
    ///
    /// # Errors
    /// *Invalid* if an option is out of range or a limit is exceeded. The follow-ups added before
    /// are kept.
    pub fn then(&self, job: NewJob) -> Result<()> {
        match job.home {
            Some(home) => self.then_in_queue(home, job),
            None => self.follow(&self.meta.queue, job),
        }
    }

    /// Adds a follow-up for another queue of the same database; see [`then`](Job::then).
    ///
    /// # Errors
    /// As [`then`](Job::then). *Invalid* also if the name is not valid; see
    /// [`Queue::new`](crate::Queue::new).
    pub fn then_in_queue(&self, queue: &str, job: NewJob) -> Result<()> {
        self.follow(&queue.into(), job)
    }

    fn follow(&self, queue: &Arc<str>, mut job: NewJob) -> Result<()> {
        job.headers.continue_trace(&self.meta.headers);
        FollowUp::new(queue, job)?.add_to(&mut lock(&self.signal.follow_ups))
    }

    /// Returns the follow-ups that the handler has added so far, in the order of the calls.
    pub fn follow_ups(&self) -> Vec<FollowUp> {
        lock(&self.signal.follow_ups).clone()
    }

    /// Returns whether the handler should end soon: the deadline passed, an operator cancelled the
    /// job, the worker stops, or its lease may be lost.
    ///
    /// Long handlers should check between steps. redrive cannot kill a thread; a handler that does
    /// not check runs on, and its result is rejected. A handler that ends with an error because the
    /// worker stops is charged no attempt: its job runs again soon, with a counted refund.
    pub fn is_cancelled(&self) -> bool {
        self.signal.cancelled.load(Ordering::Relaxed)
    }

    /// Ends the handler with `?` once it [should end](Job::is_cancelled).
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// fn import(job: &Job<Vec<String>>) -> Result<(), Failure> {
    ///     for _row in job.payload() {
    ///         job.check_cancelled()?;
    ///         // … import the row.
    ///     }
    ///     Ok(())
    /// }
    ///
    /// assert!(import(&Job::sample(vec!["a".to_owned()])).is_ok());
    /// ```
    ///
    /// # Errors
    /// [`JobCancelled`] once the handler should end. It passes through `anyhow` and others as any error
    /// does.
    pub fn check_cancelled(&self) -> Result<(), JobCancelled> {
        match self.is_cancelled() {
            true => Err(JobCancelled),
            false => Ok(()),
        }
    }
}
