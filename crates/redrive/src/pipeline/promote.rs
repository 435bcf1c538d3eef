//! Promote: makes delayed jobs ready when they are due. Every worker does this; there is no leader.

pub(crate) mod due;

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use due::Promoted;

/// The maximum number of jobs promoted by one call.
pub(crate) const MAX_PROMOTED: u32 = 1000;

/// Promotes due jobs, of a table with up to this many pages all, and looks for the next job that is due within this time.
pub(crate) fn promote(
    session: &mut Session,
    queue: &str,
    pages: i64,
    within: Duration,
) -> Result<Promoted> {
    let doing = format!("promote delayed jobs of queue `{queue}`");
    let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    let row = session.query_one(
        &doing,
        &sql::PROMOTE,
        &[&queue, &i64::from(MAX_PROMOTED), &pages, &within_ms],
    )?;
    let moved: i64 = row.get("moved");
    let moved = u32::try_from(moved).unwrap_or(u32::MAX);
    let last: Option<i64> = row.get("last_micros");
    let next_due_ms: Option<i64> = row.get("next_due_ms");
    Ok(Promoted {
        moved,
        last: last.filter(|_| moved >= MAX_PROMOTED),
        has_mark: row.get::<_, i64>("mark_micros") > 0,
        now: row.get("now_micros"),
        pages: row.get("pages"),
        next_due: next_due_ms.map(|ms| Duration::from_millis(ms.cast_unsigned())),
    })
}

/// Stores the mark of a queue for all processes.
pub(crate) fn store_delayed_mark(session: &mut Session, queue: &str, mark: i64) -> Result<()> {
    session.query(
        &format!("store the mark of the delayed jobs of queue `{queue}`"),
        &sql::STORE_DELAYED_MARK,
        &[&queue, &mark],
    )?;
    Ok(())
}
