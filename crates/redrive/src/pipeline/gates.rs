//! The gates of a worker: open breakers, paused queues, queues with groups and rate limits, which one
//! statement reads.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::db::row::{FromRow as _, column};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::breaker::BreakerStatus;

/// Everything that holds back jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// The breakers that are not closed.
    pub(crate) breakers: Vec<BreakerStatus>,
    /// The times until the pauses of queues end, named as the breakers of these are. `None`: an operator must resume it.
    pub(crate) pauses: HashMap<String, Option<Duration>>,
    /// The queues whose jobs may wait for their group, named as their breakers are.
    pub(crate) grouped: Vec<String>,
    /// The rate limits.
    pub(crate) limits: Vec<LimitStatus>,
}

/// A rate limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LimitStatus {
    /// `queue:` and the queue.
    pub(crate) name: String,
    /// Whether each group has it by itself.
    pub(crate) each_group: bool,
    /// The kind. `None`: all jobs of the queue, or of a group.
    pub(crate) kind: Option<String>,
    /// When it was set. A worker that waits for tokens looks again after a change.
    pub(crate) set_at: SystemTime,
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
            "pause" => {
                gates
                    .pauses
                    .insert(row.get("name"), column(row, "probe_in")?);
            }
            "groups" => gates.grouped.push(row.get("name")),
            cause @ ("rate" | "group_rate") => gates.limits.push(LimitStatus {
                name: row.get("name"),
                each_group: cause == "group_rate",
                kind: row.get::<_, Vec<String>>("kinds").pop(),
                set_at: row.get("set_at"),
            }),
            _ => gates.breakers.push(BreakerStatus::from_row(row)?),
        }
    }
    Ok(gates)
}
