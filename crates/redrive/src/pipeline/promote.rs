//! Promote: makes delayed jobs ready when they are due. Every worker does this; there is no leader.

pub(crate) mod due;

use std::time::Duration;

use crate::db::row::{FromRow, row};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;

/// The maximum number of jobs promoted by one call.
const MAX_PROMOTED: u32 = 1000;

row! {
    /// The result of a promotion. Times are in microseconds since 1970 by the clock of the server.
    pub(crate) struct Promoted {
        pub(crate) moved: u32,
        /// When the last of these jobs was due.
        pub(crate) last_micros: Option<i64>,
        /// The mark at which it started. 0: none.
        pub(crate) mark_micros: i64,
        /// The time of the statement.
        pub(crate) now_micros: i64,
        /// The size of the table.
        pub(crate) pages: i64,
        /// The time until the next job is due. `None`: none is due within the time asked for.
        pub(crate) next_due_ms: Option<Duration>,
    }
}

impl Promoted {
    /// Whether more jobs may be due.
    pub(crate) fn is_full(&self) -> bool {
        self.moved >= MAX_PROMOTED
    }
}

/// Promotes due jobs, of a table with up to this many pages all, and looks for the next job that is due within this time.
/// First it stores a mark for all processes, if there is one to store.
pub(crate) fn promote(
    session: &mut Session,
    queue: &str,
    mark: Option<i64>,
    pages: i64,
    within: Duration,
) -> Result<Promoted> {
    if let Some(mark) = mark {
        let doing = format!("store the mark of the delayed jobs of queue `{queue}`");
        session.query(&doing, &sql::STORE_DELAYED_MARK, &[&queue, &mark])?;
    }
    let doing = format!("promote delayed jobs of queue `{queue}`");
    let (most, within) = (i64::from(MAX_PROMOTED), milliseconds(within));
    let row = session.query_one(&doing, &sql::PROMOTE, &[&queue, &most, &pages, &within])?;
    Promoted::from_row(&row)
}
