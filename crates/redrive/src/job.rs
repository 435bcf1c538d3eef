//! Jobs: what is enqueued, and what a handler is given.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::floor::Instant;
use crate::floor::atomic::{AtomicBool, Ordering};
use crate::name;
use crate::payload::{Json, Payload};

/// The attempts of a job unless told otherwise.
const ATTEMPTS: u32 = 5;
/// The most attempts a job may be given.
pub const MOST_ATTEMPTS: u32 = 1000;
/// The furthest from 0 that a priority may be, up or down.
pub const PRIORITY_LIMIT: i16 = 1000;
/// The longest unique key, in bytes.
pub const KEY_BYTES: usize = 200;
/// The longest delay of a job: ten years.
pub const LONGEST_DELAY: Duration = Duration::from_hours(87600);

/// The identity of a job, and of the letter it may become.
///
/// It never changes: not by retries, death or redrive. It is never used for another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(i64);

impl JobId {
    /// The id with this number.
    pub fn new(id: i64) -> JobId {
        JobId(id)
    }

    /// The number.
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

/// A job to be enqueued: a kind, a payload, and options.
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
    /// A job with a typed payload.
    ///
    /// # Errors
    /// When the payload cannot be JSON, is over [`PAYLOAD_BYTES`](crate::PAYLOAD_BYTES), or has
    /// what `jsonb` cannot hold (a NUL character); or when `P::KIND` is not a good name.
    pub fn new<P: Payload>(payload: &P) -> Result<NewJob> {
        NewJob::of(P::KIND, Json::of(payload)?)
    }

    /// A job of any kind with a payload that is JSON text already.
    ///
    /// # Errors
    /// As [`NewJob::new`], and when the text is not JSON.
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
            max_attempts: ATTEMPTS,
            unique_key: None,
        })
    }

    /// Starts it no earlier than this long after the enqueue, by the database's clock.
    /// Defaults to at once; at most ten years; counted in milliseconds, rounded up.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> NewJob {
        self.delay = delay;
        self
    }

    /// Runs jobs with a higher priority first, within a queue. Defaults to 0; -1000 to 1000.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> NewJob {
        self.priority = priority;
        self
    }

    /// Gives it up to this many attempts before it becomes a dead letter. Defaults to 5; 1 to 1000.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> NewJob {
        self.max_attempts = max_attempts;
        self
    }

    /// Stores it only if no live job of its queue has this key: 1 to 200 bytes, without NUL.
    ///
    /// The key is held from the enqueue until the job is done, dead or cancelled, over retries,
    /// crashes and releases. Its dead letter keeps the key without holding it: a redrive takes it
    /// again, and leaves the letter open when another job has it by then.
    /// [`Queue::add_unique`](crate::Queue::add_unique) tells what happened.
    ///
    /// A key costs an index entry, and its enqueue waits for a transaction that is just storing a
    /// job of the same key.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> NewJob {
        self.unique_key = Some(key.into());
        self
    }

    /// Checks the options; the payload and the kind were checked when it was made.
    pub(crate) fn check(&self) -> Result<()> {
        if self.delay > LONGEST_DELAY {
            return Err(Error::invalid(format!(
                "the delay of {} days is over 3650 days",
                self.delay.as_secs() / 86_400
            )));
        }
        check_priority(self.priority)?;
        if let Some(key) = &self.unique_key {
            check_key(key)?;
        }
        if !(1..=MOST_ATTEMPTS).contains(&self.max_attempts) {
            return Err(Error::invalid(format!(
                "{} attempts are not between 1 and {MOST_ATTEMPTS}",
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
    if (-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(&priority) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the priority {priority} is not between -{PRIORITY_LIMIT} and {PRIORITY_LIMIT}"
    )))
}

fn check_key(key: &str) -> Result<()> {
    if !(1..=KEY_BYTES).contains(&key.len()) {
        return Err(Error::invalid(format!(
            "the unique key has {} bytes, not 1 to {KEY_BYTES}",
            key.len()
        )));
    }
    if key.contains('\0') {
        return Err(Error::invalid(
            "the unique key has a NUL character, which the database cannot hold",
        ));
    }
    Ok(())
}

/// Whole milliseconds for the database, rounded up: never early.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    let up = time.as_nanos().div_ceil(1_000_000);
    i64::try_from(up).unwrap_or(i64::MAX)
}

/// What a slot and the rest of the worker tell each other about a running job.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The handler should end: overrun, cancelled, or the lease is not trusted any more.
    pub(crate) cancelled: AtomicBool,
    /// An operator asked for it, so a failure is final.
    pub(crate) by_operator: AtomicBool,
    /// The verdict has been given away (by the deadline): what the handler says is too late.
    pub(crate) given_away: AtomicBool,
    /// Another slot has taken this one's place: its thread ends with this job.
    pub(crate) replaced: AtomicBool,
}

/// A job as its handler sees it.
#[derive(Debug)]
pub struct Job<P> {
    pub(crate) facts: Facts,
    pub(crate) payload: P,
    pub(crate) signal: Arc<Signal>,
}

/// What is known of a claimed job besides its payload.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) id: JobId,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) generation: u32,
    pub(crate) priority: i16,
    pub(crate) enqueued_at: SystemTime,
    /// Whether it has a unique key, which is to be freed when it ends.
    pub(crate) is_unique: bool,
    /// For how long it has met nothing but outages, by the database's clock at the claim.
    pub(crate) outage_age: Option<Duration>,
    /// For how long it had been there at the claim, since its first enqueue, by the database's clock.
    pub(crate) age: Duration,
    /// For how long it could have been claimed, by that clock.
    pub(crate) wait: Duration,
    /// The claim, by ours.
    pub(crate) claimed: Instant,
}

impl<P> Job<P> {
    /// A job that is in no queue, for tests that call a handler as the plain function it is.
    ///
    /// It is on the first of five attempts, and never cancelled.
    pub fn sample(payload: P) -> Job<P> {
        let facts = Facts {
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
        };
        Job {
            facts,
            payload,
            signal: Arc::default(),
        }
    }

    /// What it is to work on.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Its identity: the same on every attempt and after a redrive, so a good idempotency key.
    pub fn id(&self) -> JobId {
        self.facts.id
    }

    /// The queue it came from.
    pub fn queue(&self) -> &str {
        &self.facts.queue
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.facts.kind
    }

    /// Which attempt this is, from 1, within its generation.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// How many attempts it has before it becomes a dead letter.
    pub fn max_attempts(&self) -> u32 {
        self.facts.max_attempts
    }

    /// Whether a failure of this attempt makes it a dead letter.
    pub fn is_last_attempt(&self) -> bool {
        self.facts.attempt >= self.facts.max_attempts
    }

    /// How often it has been redriven: 0 for a job that never died.
    pub fn generation(&self) -> u32 {
        self.facts.generation
    }

    /// Its priority.
    pub fn priority(&self) -> i16 {
        self.facts.priority
    }

    /// When it was first enqueued, by the database's clock.
    pub fn enqueued_at(&self) -> SystemTime {
        self.facts.enqueued_at
    }

    /// Whether the handler should end soon: the job overran its deadline, an operator cancelled
    /// it, the worker stops, or its lease may be lost. Long handlers ask between their steps.
    ///
    /// A thread cannot be killed; a handler that does not ask runs on, and its result is refused.
    pub fn is_cancelled(&self) -> bool {
        self.signal.cancelled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_options_are_refused() {
        let job = || NewJob::raw("k", "1").expect("a good job");
        assert!(job().check().is_ok());
        for (bad, why) in [
            (job().delay(Duration::MAX), "over 3650 days"),
            (job().priority(1001), "priority 1001"),
            (job().priority(i16::MIN), "priority -32768"),
            (job().max_attempts(0), "0 attempts"),
            (job().max_attempts(1001), "1001 attempts"),
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
