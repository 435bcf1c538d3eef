//! Rate limits: how many jobs may start within a time, in all processes together.
//!
//! A limit is a row that all processes share, like a pause. [`tokens`](super::tokens) has the claims
//! that obey it.

use std::time::{Duration, SystemTime};

use crate::db::admin::Admin;
use crate::db::row::row;
use crate::db::sql;
use crate::error::Result;
use crate::job::operator::Operator;
use crate::pipeline::queue::Queue;

/// How many jobs may start within a time.
///
/// In every window of the duration *t*, at most `burst + rate · t` jobs start in all processes together;
/// the rate is `starts / period`. Limits count the starts of handlers, so a retry counts again. A worker that
/// crashes or stops can lose tokens, which makes the jobs slower, never faster.
///
/// ```
/// use std::time::Duration;
/// use redrive::RateLimit;
///
/// let limit = RateLimit::per(100, Duration::from_secs(1)).burst(200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct RateLimit {
    starts: u32,
    period: Duration,
    burst: u32,
}

impl RateLimit {
    /// Returns a limit of `starts` jobs, 1 to 1,000,000, per `period`, 1 ms to 31 days, with a burst of
    /// `starts`.
    pub fn per(starts: u32, period: Duration) -> RateLimit {
        RateLimit {
            starts,
            period,
            burst: starts,
        }
    }

    /// Sets how many jobs may start at once after a quiet time, 1 to 1,000,000. Defaults to the starts of a
    /// period. With 1, starts are evenly spaced.
    ///
    /// A claimed job must start within a quarter of the time in which the burst refills, 20 ms to 1 s, or
    /// its token is lost. The rate is reached only if the burst is larger than the starts of 20 ms. With a
    /// burst of 1, jobs start at 95 % of a rate of 2.5 per second, and at 83 % of a rate of 10.
    pub fn burst(mut self, burst: u32) -> RateLimit {
        self.burst = burst;
        self
    }
}

/// The jobs that a rate limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateLimited<'a> {
    /// All jobs of the queue.
    Queue,
    /// The jobs of this kind in the queue.
    Kind(&'a str),
    /// The jobs of each [group](crate::NewJob::group). Jobs without a group are not limited.
    EachGroup,
}

impl<'a> RateLimited<'a> {
    /// Returns the kind, and whether each group has the limit.
    fn parts(self) -> (Option<&'a str>, bool) {
        match self {
            RateLimited::Queue => (None, false),
            RateLimited::Kind(kind) => (Some(kind), false),
            RateLimited::EachGroup => (None, true),
        }
    }
}

row! {
    /// A rate limit, as operators see it.
    #[derive(PartialEq, Eq)]
    pub struct ListedRateLimit {
        /// The queue.
        pub queue: String,
        /// The kind; `None`: all jobs of the queue.
        pub kind: Option<String>,
        /// Whether each group has this limit.
        pub each_group: bool,
        /// How many jobs may start per period.
        pub starts: u32,
        /// The period.
        pub period: Duration,
        /// How many jobs may start at once after a quiet time.
        pub burst: u32,
        /// How many jobs may start now. 0 or less: jobs wait. Of a limit of each group, those of the group that
        /// has the fewest.
        pub tokens: i64,
        /// When it was set.
        pub set_at: SystemTime,
        /// The operator who set it.
        pub person: Option<String>,
        /// The reason.
        pub reason: Option<String>,
    }
}

impl Queue {
    /// Limits the rate at which jobs of this queue, of a kind in it, or of each group start in all processes
    /// together.
    ///
    /// Waiting jobs stay ready and lose no attempt; jobs of other kinds and groups are not delayed. A job must
    /// obey all limits that its queue, its kind and its group have. With a limit of each group, jobs with a
    /// group wait for it as under a [policy](Queue::set_group_policy), even if the queue has none. Workers learn of a limit by notification; behind
    /// a pooler in transaction mode, within a third of their lease, at most 10 seconds. Jobs that are
    /// already claimed start without regard to a new limit. A second call replaces the limit and grants no
    /// additional burst.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive::{Operator, Queue, RateLimit, RateLimited};
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// let mails = Queue::new(&db, "mails")?;
    /// let operator = Operator::new("maria@ops-1").reason("the provider allows 100 a second");
    /// let limit = RateLimit::per(100, Duration::from_secs(1)).burst(200);
    /// mails.limit_rate(RateLimited::Kind("newsletter"), limit, &operator)?;
    /// assert!(mails.unlimit_rate(RateLimited::Kind("newsletter"), &operator)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// *Invalid* for a limit out of range or an invalid kind. Otherwise if the database does not answer.
    pub fn limit_rate(
        &self,
        jobs: RateLimited<'_>,
        limit: RateLimit,
        operator: &Operator,
    ) -> Result<()> {
        let (kind, each_group) = jobs.parts();
        self.database().ask().one(
            &format!("limit the rate of queue `{}`", self.name()),
            &sql::SET_RATE_LIMIT,
            &[
                &self.name(),
                &limit.starts,
                &limit.period,
                &limit.burst,
                &kind,
                &each_group,
                operator,
            ],
        )
    }

    /// Removes the rate limit of this queue, of a kind in it, or of each group. Returns `false` if there was none.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn unlimit_rate(&self, jobs: RateLimited<'_>, operator: &Operator) -> Result<bool> {
        let (kind, each_group) = jobs.parts();
        self.database().ask().one(
            &format!("remove the rate limit of queue `{}`", self.name()),
            &sql::REMOVE_RATE_LIMIT,
            &[&self.name(), &kind, &each_group, operator],
        )
    }
}

impl Admin<'_> {
    /// Returns the rate limits of a queue, or of all queues.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn rate_limits(&self, queue: Option<&str>) -> Result<Vec<ListedRateLimit>> {
        let ask = self.db.ask();
        ask.all("list rate limits", &sql::RATE_LIMITS, &[&queue])
    }
}
