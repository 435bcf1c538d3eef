//! New jobs: what a program enqueues.

mod unique;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::headers::{
    EXPIRES_IN, Headers, MAX_HEADER_BYTES, PAYLOAD_VERSION, UNIQUE_UNTIL, stored,
};
use crate::job::milliseconds::milliseconds;
use crate::job::name;
use crate::job::payload::{Json, Payload};
use crate::job::setters::setters;

pub use unique::Replace;

/// The attempts of a job without a typed payload.
pub(crate) const DEFAULT_ATTEMPTS: u32 = 5;
/// The maximum number of attempts of a job: 1,000.
pub const MAX_ATTEMPTS: u32 = 1000;
/// The highest priority: 1,000. The lowest is its negative.
pub const MAX_PRIORITY: i16 = 1000;
/// The longest unique key, in bytes: 200.
pub const MAX_UNIQUE_KEY_BYTES: usize = 200;
/// The longest name of a group, in bytes: 200.
pub const MAX_GROUP_BYTES: usize = 200;
/// The longest delay of a job: ten years.
pub const MAX_DELAY: Duration = Duration::from_hours(87600);

/// A job to enqueue: a kind, a payload and options.
#[derive(Clone, Debug)]
#[must_use]
pub struct NewJob {
    pub(crate) kind: String,
    /// The only queue that accepts it. `None`: any queue does.
    pub(crate) home: Option<&'static str>,
    /// The version of its type. `None`: the payload has no type.
    version: Option<u32>,
    expires_in: Option<Duration>,
    /// Whether it holds its unique key only until a worker takes it.
    until_started: bool,
    pub(crate) payload: Json,
    pub(crate) delay: Duration,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u32,
    pub(crate) unique_key: Option<String>,
    pub(crate) replace: Option<Replace>,
    pub(crate) unique_window: Option<Duration>,
    pub(crate) group: Option<String>,
    pub(crate) headers: Headers,
}

impl From<&NewJob> for NewJob {
    fn from(job: &NewJob) -> NewJob {
        job.clone()
    }
}

impl NewJob {
    /// Returns a job with a typed payload and the defaults of its type. `serde_json` writes NaN and the infinities as `null`.
    ///
    /// # Errors
    /// *Invalid* if the payload cannot be JSON, exceeds 1 MiB or contains a NUL character, or if
    /// `P::KIND` is not a valid name.
    pub fn new<P: Payload>(payload: &P) -> Result<NewJob> {
        const { NewJob::check_type::<P>() };
        Ok(NewJob {
            home: P::QUEUE,
            version: Some(P::VERSION),
            max_attempts: P::ATTEMPTS,
            priority: P::PRIORITY,
            unique_key: payload.unique(),
            group: payload.group(),
            ..NewJob::of(P::KIND, Json::of("the payload", payload)?)?
        })
    }

    /// Does not compile if a constant of the type is out of range.
    #[doc(hidden)]
    pub const fn check_type<P: Payload>() {
        assert!(!P::KIND.is_empty(), "a kind is not empty");
        assert!(
            1 <= P::ATTEMPTS && P::ATTEMPTS <= MAX_ATTEMPTS,
            "the attempts must be 1 to redrive::limits::MAX_ATTEMPTS"
        );
        assert!(
            -MAX_PRIORITY <= P::PRIORITY && P::PRIORITY <= MAX_PRIORITY,
            "the priority must be within redrive::limits::MAX_PRIORITY"
        );
        assert!(P::VERSION > 0, "VERSION counts from 1");
    }

    /// Returns a job of any kind with a payload that is already JSON text. The version of the payload is 1, unless a
    /// [header](NewJob::header) says another.
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
            home: None,
            version: None,
            expires_in: None,
            until_started: false,
            payload,
            delay: Duration::ZERO,
            priority: 0,
            max_attempts: DEFAULT_ATTEMPTS,
            unique_key: None,
            replace: None,
            unique_window: None,
            group: None,
            headers: Headers::default(),
        })
    }

    setters! {
        /// Sets the delay before the job becomes ready, by the database's clock. Defaults to none. At
        /// most ten years, rounded up to milliseconds.
        pub fn delay(self, delay: Duration) => self.delay = delay;

        /// Sets the priority within the queue; higher runs first. Defaults to that of the
        /// payload's type, or 0. Accepts -1,000 to 1,000.
        pub fn priority(self, priority: i16) => self.priority = priority;

        /// Sets the number of attempts before the job becomes a dead letter. Defaults to that of
        /// the payload's type, or 5. Accepts 1 to 1,000.
        pub fn max_attempts(self, max_attempts: u32) => self.max_attempts = max_attempts;

        /// Puts the job into a group, such as `customer:42`. 1 to 200 bytes, without NUL.
        ///
        /// The [policy](crate::Queue::set_group_policy) of the queue decides what that means: whether the
        /// jobs of a group run one at a time in the order of their ids, up to a limit at a time, or in turn with
        /// those of other groups. Without a policy, the group is metadata. It stays with the
        /// job through retries, death and redrive.
        ///
        /// Within a group, the priority has no effect. A job of a group costs two index entries more.
        pub fn group(self, group: impl Into<String>) => self.group = Some(group.into());

        /// Takes the unique key and the group off, such as those that the payload's type gave.
        pub fn without_keys(self) => (self.unique_key, self.group) = (None, None);

        /// Adds a header: metadata such as a trace id, which travels with the job through retries, death
        /// and redrive. All headers of a job have at most 64 KiB.
        ///
        /// Names that start with `redrive-` are reserved. A [`raw`](NewJob::raw) job may have one of them: with
        /// `redrive-payload-version`, it says which [version](crate::Payload::VERSION) of its type the payload has.
        pub fn header(self, name: impl Into<String>, value: impl Into<String>) =>
            self.headers.0.insert(name.into(), value.into());

        /// Sets how long after its enqueue, or after the tick of its schedule, the job may still start. Defaults to forever. At least 1
        /// millisecond and longer than the delay; at most ten years; rounded up to milliseconds.
        ///
        /// A job that a worker receives later, on its first attempt or on a retry, is not run: it becomes
        /// a dead letter of the cause [`Expired`](crate::dlq::DeathCause::Expired), without charging an attempt.
        /// The time counts by the database's clock. A redrive sends the job without this limit.
        pub fn expires_in(self, time: Duration) => self.expires_in = Some(time);
    }

    /// Checks the options for a queue. `new` and `raw` have checked the payload and the kind.
    pub(crate) fn check(&self, queue: &str) -> Result<()> {
        self.headers.check(self.version)?;
        self.stored_headers()?;
        if let Some(key) = &self.unique_key {
            check_key("unique key", key, MAX_UNIQUE_KEY_BYTES)?;
        }
        if let Some(group) = &self.group {
            check_key("group", group, MAX_GROUP_BYTES)?;
        }
        let window = self.unique_window;
        let needs_key = self.until_started || self.replace.is_some() || window.is_some();
        let window = window.unwrap_or(MAX_DELAY);
        let (kind, priority, attempts) = (&self.kind, self.priority, self.max_attempts);
        let (delay, time) = (self.delay, self.expires_in.unwrap_or(MAX_DELAY));
        let fault = if let Some(home) = self.home.filter(|home| *home != queue) {
            format!("jobs of kind `{kind}` belong to the queue `{home}`, not to `{queue}`")
        } else if self.unique_key.is_none() && needs_key {
            let options = "`until_started`, `replace` and `unique_window`";
            format!("the job has no unique key; {options} need one")
        } else if window.is_zero() || window > MAX_DELAY {
            format!("the unique window is {window:?}; it must be 1 ms to 3650 days")
        } else if delay > MAX_DELAY {
            let days = delay.as_secs() / 86_400;
            format!("the delay is {days} days; the limit is 3650 days")
        } else if !(-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
            format!("the priority is {priority}; it must be -{MAX_PRIORITY} to {MAX_PRIORITY}")
        } else if !(1..=MAX_ATTEMPTS).contains(&attempts) {
            format!("max_attempts is {attempts}; it must be 1 to {MAX_ATTEMPTS}")
        } else if time.is_zero() || time > MAX_DELAY {
            format!("the job expires in {time:?}; it must be 1 ms to 3650 days")
        } else if self.expires_in.is_some() && milliseconds(time) <= self.delay_ms() {
            format!("the job expires in {time:?}, before its delay of {delay:?} ends")
        } else {
            return Ok(());
        };
        Err(Error::invalid(fault))
    }

    /// Whether the job is ready at once and has neither a key nor headers nor a group, as most jobs.
    pub(crate) fn is_plain(&self) -> bool {
        self.delay.is_zero() && self.unique_key.is_none() && !self.is_labelled()
    }

    pub(crate) fn is_labelled(&self) -> bool {
        let has_headers = !self.headers.0.is_empty() || self.reserved().next().is_some();
        self.group.is_some() || has_headers
    }

    /// The headers that redrive adds.
    fn reserved(&self) -> impl Iterator<Item = (String, String)> {
        let ms = |time| milliseconds(time).to_string();
        let (until, started) = UNIQUE_UNTIL;
        let version = self.version.filter(|version| *version != 1);
        let all = [
            self.expires_in.map(|time| (EXPIRES_IN, ms(time))),
            self.until_started.then(|| (until, started.to_owned())),
            version.map(|version| (PAYLOAD_VERSION, version.to_string())),
        ];
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        all.into_iter().flatten().map(named)
    }

    pub(crate) fn stored_headers(&self) -> Result<Option<Json>> {
        let mut all = self.headers.0.clone();
        all.extend(self.reserved());
        stored(&all, MAX_HEADER_BYTES, "a job")
    }

    pub(crate) fn delay_ms(&self) -> i64 {
        milliseconds(self.delay)
    }
}

/// Checks a unique key or a group.
pub(crate) fn check_key(what: &str, key: &str, max_bytes: usize) -> Result<()> {
    let fault = if !(1..=max_bytes).contains(&key.len()) {
        format!("is {} bytes; it must be 1 to {max_bytes}", key.len())
    } else if key.contains('\0') {
        "contains NUL, which PostgreSQL cannot store".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the {what} {fault}")))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Typed;

    impl Payload for Typed {
        const KIND: &'static str = "k";
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        let job = || NewJob::raw("k", "1").expect("a good job");
        let typed = NewJob::new(&Typed).expect("a good job");
        for good in [
            job(),
            job().delay(MAX_DELAY),
            job().priority(-1000),
            job().priority(1000),
            job().max_attempts(1),
            job().max_attempts(1000),
            job().header("a", "x".repeat(MAX_HEADER_BYTES - 100)),
            job().unique("x".repeat(200)).group("x".repeat(200)),
        ] {
            assert!(good.check("q").is_ok(), "{good:?}");
        }
        for (bad, why) in [
            (job().delay(Duration::MAX), "the limit is 3650 days"),
            (job().priority(1001), "priority is 1001"),
            (job().priority(i16::MIN), "priority is -32768"),
            (job().max_attempts(0), "max_attempts is 0"),
            (job().max_attempts(1001), "max_attempts is 1001"),
            (job().header("redrive-source", "x"), "reserved"),
            (job().header("a\0", "1"), "a header contains NUL"),
            (job().header("a", "\0"), "a header contains NUL"),
            (job().header("a", "x".repeat(MAX_HEADER_BYTES)), "65545"),
            (
                job()
                    .header("a", "x".repeat(MAX_HEADER_BYTES - 9))
                    .expires_in(MAX_DELAY),
                "65577 bytes",
            ),
            (typed.header("redrive-payload-version", "2"), "reserved"),
            (job().expires_in(Duration::ZERO), "1 ms to 3650 days"),
            (job().expires_in(Duration::MAX), "1 ms to 3650 days"),
            (
                job().delay(MAX_DELAY).expires_in(MAX_DELAY),
                "before its delay",
            ),
            (job().until_started(), "no unique key"),
            (job().replace(Replace::Time), "no unique key"),
            (job().unique_window(Duration::from_secs(1)), "no unique key"),
            (
                job().unique("a").unique_window(Duration::ZERO),
                "window is 0ns",
            ),
            (job().unique("a").unique_window(Duration::MAX), "3650 days"),
            (job().unique(""), "0 bytes"),
            (job().unique("x".repeat(201)), "201 bytes"),
            (job().unique("a\0b"), "NUL"),
            (job().group(""), "the group is 0 bytes"),
            (job().group("x".repeat(201)), "the group is 201 bytes"),
            (job().group("a\0b"), "the group contains NUL"),
        ] {
            let error = bad.check("q").expect_err(why);
            error.assert_invalid(why);
            assert!(!error.to_string().contains('\0'), "{error:?}");
        }
    }
}
