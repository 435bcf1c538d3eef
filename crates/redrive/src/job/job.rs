//! Jobs: what a program enqueues and what a handler receives.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::job::name;
use crate::job::payload::{Json, Payload};
use crate::sync::Instant;
use crate::sync::atomic::{AtomicBool, Ordering};

pub(crate) const DEFAULT_ATTEMPTS: u32 = 5;
/// The maximum number of attempts of a job: 1,000.
pub const MAX_ATTEMPTS: u32 = 1000;
/// The highest priority: 1,000. The lowest is its negative.
pub const MAX_PRIORITY: i16 = 1000;
/// The longest unique key, in bytes: 200.
pub const MAX_UNIQUE_KEY_BYTES: usize = 200;
/// The longest delay of a job: ten years.
pub const MAX_DELAY: Duration = Duration::from_hours(87600);

/// The id of a job, and of the letter it may become.
///
/// It stays the same through retries, death and redrive, and is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(i64);

impl JobId {
    /// Returns the id with this number.
    pub fn new(id: i64) -> JobId {
        JobId(id)
    }

    /// Returns the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobId> {
        text.parse().map(JobId).map_err(|error| {
            Error::invalid(format!("`{}` is not a job id", text.escape_debug())).caused_by(error)
        })
    }
}

/// A job to enqueue: a kind, a payload and options.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub(crate) kind: String,
    pub(crate) payload: Json,
    pub(crate) delay: Duration,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u32,
    pub(crate) unique_key: Option<String>,
}

impl NewJob {
    /// Returns a job with a typed payload.
    ///
    /// # Errors
    /// *Invalid* if the payload cannot be JSON, exceeds 1 MiB or contains a NUL character, or if
    /// `P::KIND` is not a valid name.
    pub fn new<P: Payload>(payload: &P) -> Result<NewJob> {
        NewJob::of(P::KIND, Json::of(payload)?)
    }

    /// Returns a job of any kind with a payload that is already JSON text.
    ///
    /// # Errors
    /// As [`NewJob::new`]. *Invalid* also if the text is not JSON.
    pub fn raw(kind: &str, json: &str) -> Result<NewJob> {
        NewJob::of(kind, Json::parse(json)?)
    }

    fn of(kind: &str, payload: Json) -> Result<NewJob> {
        name::check("kind", kind)?;
        Ok(NewJob {
            kind: kind.to_owned(),
            payload,
            delay: Duration::ZERO,
            priority: 0,
            max_attempts: DEFAULT_ATTEMPTS,
            unique_key: None,
        })
    }

    /// Sets the delay before the job becomes ready, by the database's clock. Defaults to none. At
    /// most ten years, rounded up to milliseconds.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> NewJob {
        self.delay = delay;
        self
    }

    /// Sets the priority within the queue; higher runs first. Defaults to 0. Accepts -1,000 to
    /// 1,000.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> NewJob {
        self.priority = priority;
        self
    }

    /// Sets the number of attempts before the job becomes a dead letter. Defaults to 5. Accepts 1
    /// to 1,000.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> NewJob {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets a unique key: the job is stored only if no live job of its queue has the same key. 1 to
    /// 200 bytes, without NUL.
    ///
    /// The job holds the key through retries, crashes and releases, until it is done, dead or
    /// cancelled. Its dead letter remembers the key without holding it. A redrive takes the key
    /// again, and leaves the letter open if another job holds it.
    /// [`Queue::enqueue_job`](crate::Queue::enqueue_job) returns whether the job was stored.
    ///
    /// A key costs one index entry. Enqueueing waits for a transaction that is storing the same
    /// key.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> NewJob {
        self.unique_key = Some(key.into());
        self
    }

    /// Checks the options. `new` and `raw` have checked the payload and the kind.
    pub(crate) fn check(&self) -> Result<()> {
        if self.delay > MAX_DELAY {
            return Err(Error::invalid(format!(
                "the delay is {} days; the limit is 3650 days",
                self.delay.as_secs() / 86_400
            )));
        }
        check_priority(self.priority)?;
        if let Some(key) = &self.unique_key {
            check_key(key)?;
        }
        if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) {
            return Err(Error::invalid(format!(
                "max_attempts is {}; it must be 1 to {MAX_ATTEMPTS}",
                self.max_attempts
            )));
        }
        Ok(())
    }

    pub(crate) fn delay_ms(&self) -> i64 {
        milliseconds(self.delay)
    }
}

pub(crate) fn check_priority(priority: i16) -> Result<()> {
    if (-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the priority is {priority}; it must be -{MAX_PRIORITY} to {MAX_PRIORITY}"
    )))
}

fn check_key(key: &str) -> Result<()> {
    if !(1..=MAX_UNIQUE_KEY_BYTES).contains(&key.len()) {
        return Err(Error::invalid(format!(
            "the unique key is {} bytes; it must be 1 to {MAX_UNIQUE_KEY_BYTES}",
            key.len()
        )));
    }
    if key.contains('\0') {
        return Err(Error::invalid(
            "the unique key contains NUL, which PostgreSQL cannot store",
        ));
    }
    Ok(())
}

/// Returns whole milliseconds for the database, rounded up so that nothing is early.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    let up = time.as_nanos().div_ceil(1_000_000);
    i64::try_from(up).unwrap_or(i64::MAX)
}

/// Flags shared by a running handler and the rest of the worker.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The handler should end: deadline, cancel, stop, or an untrusted lease.
    pub(crate) cancelled: AtomicBool,
    /// An operator cancelled the job, so a failure is final.
    pub(crate) by_operator: AtomicBool,
    /// The job was judged without its handler (at the deadline). The result comes too late.
    pub(crate) given_away: AtomicBool,
    /// Another slot replaced this one. Its thread ends with this job.
    pub(crate) replaced: AtomicBool,
}

/// A job, as its handler receives it.
#[derive(Debug)]
pub struct Job<P> {
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) payload: P,
    pub(crate) signal: Arc<Signal>,
}

/// A claimed job without its payload. The slot, the handler and the settler share it.
#[derive(Debug)]
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
    /// How long the job has met nothing but outages, at the claim.
    pub(crate) outage_age: Option<Duration>,
    /// The time from the first enqueue to the claim, by the database's clock.
    pub(crate) age: Duration,
    /// The time from ready to the claim, by the database's clock.
    pub(crate) wait: Duration,
    /// The time of the claim, by this process's clock.
    pub(crate) claimed: Instant,
}

impl<P> Job<P> {
    /// Returns a job outside of any queue, for tests that call a handler directly.
    ///
    /// It is on the first of five attempts and never cancelled.
    pub fn sample(payload: P) -> Job<P> {
        let meta = Arc::new(JobMeta {
            id: JobId(0),
            queue: "sample".into(),
            kind: "sample".into(),
            attempt: 1,
            max_attempts: 5,
            generation: 0,
            priority: 0,
            enqueued_at: SystemTime::now(),
            is_unique: false,
            outage_age: None,
            age: Duration::ZERO,
            wait: Duration::ZERO,
            claimed: Instant::now(),
        });
        Job {
            meta,
            payload,
            signal: Arc::default(),
        }
    }

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

    /// Returns when the job was first enqueued, by the database's clock.
    pub fn enqueued_at(&self) -> SystemTime {
        self.meta.enqueued_at
    }

    /// Returns whether the handler should end soon: the deadline passed, an operator cancelled the
    /// job, the worker stops, or its lease may be lost.
    ///
    /// Long handlers should check between steps. redrive cannot kill a thread; a handler that does
    /// not check runs on, and its result is rejected.
    pub fn is_cancelled(&self) -> bool {
        self.signal.cancelled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_rejected() {
        let job = || NewJob::raw("k", "1").expect("a good job");
        assert!(job().check().is_ok());
        for (bad, why) in [
            (job().delay(Duration::MAX), "the limit is 3650 days"),
            (job().priority(1001), "priority is 1001"),
            (job().priority(i16::MIN), "priority is -32768"),
            (job().max_attempts(0), "max_attempts is 0"),
            (job().max_attempts(1001), "max_attempts is 1001"),
            (job().unique(""), "0 bytes"),
            (job().unique("x".repeat(201)), "201 bytes"),
            (job().unique("a\0b"), "NUL"),
        ] {
            let error = bad.check().expect_err(why);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{error}"
            );
        }
    }

    #[test]
    fn a_delay_is_never_rounded_down() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
        assert_eq!(milliseconds(Duration::MAX), i64::MAX);
    }
}
