//! The gates of a worker: open breakers, paused queues and queues with groups, which one statement reads.

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::breaker::{self, BreakerStatus};

/// The cause of a row that is a pause.
const PAUSE: &str = "pause";
/// The cause of a row that is a policy for groups.
const GROUPS: &str = "groups";

/// Everything that holds back jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// The breakers that are not closed.
    pub(crate) breakers: Vec<BreakerStatus>,
    /// The paused queues.
    pub(crate) pauses: Vec<PauseStatus>,
    /// The queues whose jobs may wait for their group, named as their breakers are.
    pub(crate) grouped: Vec<String>,
}

/// A paused queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PauseStatus {
    /// `queue:` and the queue, as a breaker of the queue is named.
    pub(crate) name: String,
    /// The time until it ends. `None`: an operator must resume the queue.
    pub(crate) ends_in: Option<Duration>,
}

/// Reads the gates.
pub(crate) fn read_gates(session: &mut Session) -> Result<Gates> {
    let rows = session.query("read the breakers and pauses", &sql::OPEN_BREAKERS, &[])?;
    let mut gates = Gates::default();
    for row in &rows {
        match row.get("cause") {
            PAUSE => gates.pauses.push(PauseStatus {
                name: row.get("name"),
                ends_in: row
                    .get::<_, Option<i64>>("probe_in_ms")
                    .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
            }),
            GROUPS => gates.grouped.push(row.get("name")),
            _ => gates.breakers.push(breaker::status(row)?),
        }
    }
    Ok(gates)
}
