//! Promote: makes delayed jobs ready when they are due. Every worker does this; there is no leader.

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// The maximum number of jobs promoted by one call.
pub(crate) const MAX_PROMOTED: i64 = 1000;

/// The result of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    /// How many jobs became ready.
    pub(crate) moved: i64,
    /// The time until the next job is due. `None`: no job is delayed.
    pub(crate) next_due: Option<Duration>,
}

pub(crate) fn promote(session: &mut Session, queue: &str) -> Result<Promoted> {
    let doing = format!("promote delayed jobs of queue `{queue}`");
    let row = session.query_one(&doing, &sql::PROMOTE, &[&queue, &MAX_PROMOTED])?;
    let next_due_ms: Option<i64> = row.get("next_due_ms");
    Ok(Promoted {
        moved: row.get("moved"),
        next_due: next_due_ms.map(|ms| Duration::from_millis(ms.cast_unsigned())),
    })
}
