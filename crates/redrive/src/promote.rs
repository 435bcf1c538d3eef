//! Promote: delayed jobs whose time has come become ready. Whoever polls does it; no leader.

use std::time::Duration;

use crate::error::Result;
use crate::session::Session;
use crate::sql;

/// How many delayed jobs one call moves at most.
pub(crate) const PROMOTE_LIMIT: i64 = 1000;

/// What a look at the delayed jobs of a queue found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    /// How many became ready.
    pub(crate) moved: i64,
    /// In how long the next one is due; `None`: no job is delayed.
    pub(crate) next_due: Option<Duration>,
}

pub(crate) fn promote(session: &mut Session, queue: &str) -> Result<Promoted> {
    let doing = format!("promote delayed jobs of queue `{queue}`");
    let row = session.query_one(&doing, &sql::PROMOTE, &[&queue, &PROMOTE_LIMIT])?;
    let next_due_ms: Option<i64> = row.get("next_due_ms");
    Ok(Promoted {
        moved: row.get("moved"),
        next_due: next_due_ms.map(|ms| Duration::from_millis(ms.cast_unsigned())),
    })
}
