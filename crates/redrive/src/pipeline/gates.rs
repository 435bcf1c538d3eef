//! The gates of a worker: open breakers, paused queues, queues with groups and rate limits, which one
//! statement reads.

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::breaker::{self, BreakerStatus};

/// The cause of a row that is a pause.
const PAUSE: &str = "pause";
/// The cause of a row that is a policy for groups.
const GROUPS: &str = "groups";
/// The cause of a row that is a rate limit.
const RATE: &str = "rate";

/// Everything that holds back jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// The breakers that are not closed.
    pub(crate) breakers: Vec<BreakerStatus>,
    /// The paused queues.
    pub(crate) pauses: Vec<PauseStatus>,
    /// The queues whose jobs may wait for their group, named as their breakers are.
    pub(crate) grouped: Vec<String>,
    /// The rate limits.
    pub(crate) limits: Vec<LimitStatus>,
}

/// A paused queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PauseStatus {
    /// `queue:` and the queue, as a breaker of the queue is named.
    pub(crate) name: String,
    /// The time until it ends. `None`: an operator must resume the queue.
    pub(crate) ends_in: Option<Duration>,
}

/// A rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitStatus {
    /// `queue:` and the queue.
    pub(crate) name: String,
    /// The jobs that it counts.
    pub(crate) scope: LimitScope,
    /// How soon a job must start once it has a token.
    pub(crate) hold: Duration,
}

/// The jobs that a rate limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitScope {
    /// Those of one kind, or with an empty kind all jobs of the queue.
    Kind(String),
    /// Those of each group by themselves.
    EachGroup,
}

/// Reads the gates.
pub(crate) fn read_gates(session: &mut Session) -> Result<Gates> {
    let rows = session.query(
        "read the breakers, pauses and limits",
        &sql::OPEN_BREAKERS,
        &[],
    )?;
    let mut gates = Gates::default();
    for row in &rows {
        match row.get::<_, &str>("cause") {
            PAUSE => gates.pauses.push(PauseStatus {
                name: row.get("name"),
                ends_in: row
                    .get::<_, Option<i64>>("probe_in_ms")
                    .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
            }),
            GROUPS => gates.grouped.push(row.get("name")),
            RATE => gates.limits.push(LimitStatus {
                name: row.get("name"),
                scope: match row.get::<_, Vec<String>>("kinds").pop() {
                    Some(kind) => LimitScope::Kind(kind),
                    None => LimitScope::EachGroup,
                },
                hold: Duration::from_micros(row.get::<_, i64>("hold_us").unsigned_abs()),
            }),
            _ => gates.breakers.push(breaker::status(row)?),
        }
    }
    Ok(gates)
}
