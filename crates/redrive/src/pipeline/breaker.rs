//! Breakers: stop claiming jobs whose dependency is down.
//!
//! A breaker is a row shared by all processes. After a wait, exactly one of them may run one job as a
//! *probe*, which closes the breaker or doubles the wait. Fetchers learn of a change a moment late, which
//! is harmless because an outage costs no attempt.

use std::time::{Duration, SystemTime};

use crate::db::admin::Admin;
use crate::db::ask::{Call, rows};
use crate::db::row::row;
use crate::db::sql;
use crate::error::Result;
use crate::job::name::OF_QUEUES;
use crate::job::operator::Operator;
use crate::job::words::words;

/// The wait before the first probe and the longest wait.
pub(crate) const MIN_PROBE_WAIT: Duration = Duration::from_secs(1);
pub(crate) const MAX_PROBE_WAIT: Duration = Duration::from_mins(1);

/// Returns the name of the breaker of a whole queue.
pub(crate) fn of_queue(queue: &str) -> String {
    format!("{OF_QUEUES}{queue}")
}

words! {
    /// Whether workers claim the affected jobs.
    pub enum BreakerState is "breaker state" {
        /// Workers claim them.
        Closed = "closed",
        /// No worker claims them.
        Open = "open",
        /// One process may run one of them as a probe.
        HalfOpen = "half_open",
    }
}

words! {
    /// Why a breaker last opened.
    pub enum BreakerCause is "breaker cause" {
        /// Handlers reported outages ([`Failure::outage`](crate::Failure::outage)).
        Outage = "outage",
        /// A worker dead-lettered too many jobs
        /// ([`WorkerBuilder::flood_guard`](crate::WorkerBuilder::flood_guard)).
        Flood = "flood",
        /// An operator opened it.
        Operator = "operator",
    }
}

row! {
    /// A breaker, as operators see it.
    #[derive(PartialEq, Eq)]
    pub struct Breaker {
        /// A dependency, or `queue:` and the name of a queue.
        pub name: String,
        /// Whether workers claim the affected jobs.
        pub state: BreakerState,
        /// Why it last opened.
        pub cause: BreakerCause,
        /// The message of the last outage, or the operator's reason.
        pub message: Option<String>,
        /// The kinds that depend on it, as reported by workers. Empty for a queue, which affects every
        /// kind.
        pub kinds: Vec<String>,
        /// Outages in a row: those that opened it and the failed probes since.
        pub outages: u64,
        /// How many probes have run.
        pub probes: u64,
        /// The current wait between probes.
        pub wait: Duration,
        /// When it last opened.
        pub opened_at: SystemTime,
        /// When the next probe may run. `None` if it is closed, or open until an operator closes it.
        pub probe_at: Option<SystemTime>,
        /// When it last changed.
        pub changed_at: SystemTime,
    }
}

impl Admin<'_> {
    /// Lists every breaker that was ever open, those that are not closed first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn breakers(&self) -> Result<Vec<Breaker>> {
        self.db.ask().all("list breakers", &sql::BREAKERS, &[])
    }

    /// Opens a breaker by hand, so that no worker claims the affected jobs.
    ///
    /// After `lasting`, a probe decides whether it closes. With `None` it stays open until
    /// [`close_breaker`](Admin::close_breaker). Running jobs continue.
    ///
    /// `name` is a [dependency](crate::HandlerOptions::dependency), or `queue:` and a queue. To pause a queue
    /// without a probe, use [`Queue::pause`](crate::Queue::pause).
    ///
    /// ```
    /// # use redrive::Operator;
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// let operator = Operator::new("maria@ops-1").reason("the gateway is being upgraded");
    /// db.admin().open_breaker("payments-api", Some(Duration::from_mins(30)), &operator)?;
    /// assert!(db.admin().close_breaker("payments-api", &operator)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// *Invalid* for a name that no queue or dependency can have, and for a time of zero or over
    /// 3,650 days. Otherwise if the database does not answer.
    pub fn open_breaker(
        &self,
        name: &str,
        lasting: Option<Duration>,
        operator: &Operator,
    ) -> Result<()> {
        self.db.ask().one(
            &format!("open breaker `{}`", name.escape_debug()),
            &sql::OPEN_BREAKER,
            &[&name, &lasting, operator],
        )
    }

    /// Closes a breaker by hand. Returns `false` if it was closed already.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn close_breaker(&self, name: &str, operator: &Operator) -> Result<bool> {
        self.db.ask().one(
            &format!("close breaker `{}`", name.escape_debug()),
            &sql::CLOSE_BREAKER,
            &[&name, operator],
        )
    }
}

/// A request to open a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BreakerTrip {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    pub(crate) message: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) outages: u32,
}

/// Returns the call that opens a breaker.
pub(crate) fn trip(trip: &BreakerTrip) -> Call {
    rows(
        &format!("open breaker `{}`", trip.name),
        &sql::TRIP_BREAKER,
        &[
            &trip.name,
            &trip.cause,
            &trip.message,
            &trip.kinds,
            &i64::from(trip.outages),
            &MIN_PROBE_WAIT,
        ],
    )
}
