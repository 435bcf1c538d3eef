//! Runs the policies that are due. Any worker does, one worker per policy.

use std::time::Duration;

use uuid::Uuid;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;

/// How long a worker keeps a policy: long against the renewal interval, short against a tick.
const LEASE: Duration = Duration::from_mins(1);
/// The most ticks per call, because the caller also renews leases.
const TICKS: usize = 20;

/// The outcome of a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) policy: String,
    pub(crate) mode: String,
    pub(crate) letters: i64,
    pub(crate) trouble: Option<String>,
    /// The time until the next tick of the policy.
    pub(crate) next: Option<Duration>,
}

/// Runs the due policies, one transaction each.
pub(crate) fn run_policies(session: &mut Session, holder: Uuid) -> Result<Vec<Tick>> {
    let mut ticks = Vec::new();
    while ticks.len() < TICKS {
        let rows = session.query(
            "run the policies",
            &sql::RUN_POLICIES,
            &[&holder, &milliseconds(LEASE)],
        )?;
        let Some(row) = rows.first() else { break };
        ticks.push(Tick {
            policy: row.get("policy"),
            mode: row.get("mode"),
            letters: row.get("letters"),
            trouble: row.get("error"),
            next: row
                .get::<_, Option<i64>>("next_ms")
                .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
        });
    }
    Ok(ticks)
}
