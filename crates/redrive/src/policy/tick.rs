//! The ticks of the policies: any worker's pulse runs those that are due and that nobody else has.

use std::time::Duration;

use uuid::Uuid;

use crate::error::Result;
use crate::job::milliseconds;
use crate::session::Session;
use crate::sql;

/// How long a process keeps a policy without a sign of life: long against the pulse, short against
/// the time from tick to tick.
const LEASE: Duration = Duration::from_mins(1);
/// The most ticks of one call: the pulse has leases to renew.
const TICKS: usize = 20;

/// What a tick did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) policy: String,
    pub(crate) mode: String,
    pub(crate) letters: i64,
    pub(crate) trouble: Option<String>,
}

/// Runs what is due, a transaction each.
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
            trouble: row.get("trouble"),
        });
    }
    Ok(ticks)
}
