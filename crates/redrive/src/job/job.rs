//! Jobs, as their handlers receive them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::job::headers::Headers;
use crate::sync::Instant;
use crate::sync::atomic::{AtomicBool, Ordering};

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
    /// Returns the time from enqueue to start that the job has exceeded; `None`: it may start.
    pub(crate) fn expired(&self, now: Instant) -> Option<Duration> {
        let limit = self.headers.expires_in()?;
        let age = self.age + now.saturating_duration_since(self.claimed);
        (age > limit).then_some(limit)
    }
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
            headers: Headers::default(),
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
        self.meta.headers.schedule()
    }

    /// Returns the headers, by name.
    ///
    /// The job of a captured failure has those of the failure, and `redrive-source` and
    /// `redrive-position`.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.meta.headers.0
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
    fn a_delay_is_never_rounded_down() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
        assert_eq!(milliseconds(Duration::MAX), i64::MAX);
    }
}
