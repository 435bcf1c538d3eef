//! Promote: makes delayed jobs ready when they are due. Every worker does this; there is no leader.

use std::time::Duration;

use crate::db::ask::{Call, one};
use crate::db::row::row;
use crate::db::sql;

/// The maximum number of jobs promoted by one call.
const MOST: i64 = 1000;

row! {
    /// The result of a promotion.
    pub(crate) struct Promoted {
        pub(crate) moved: u32,
        /// The time until the next job is due; zero: more may be due now. `None`: none is due within the time asked for.
        pub(crate) next_due_ms: Option<Duration>,
        /// The time until a promotion reads all due jobs, if others start at a mark.
        pub(crate) whole_in_ms: Option<Duration>,
    }
}

/// Returns the call that promotes due jobs, and looks for the next job that is due within this time. `failed` is how long
/// the promotions before took that failed in a row.
pub(crate) fn promote(queue: &str, within: Duration, failed: Duration) -> Call<Promoted> {
    let doing = format!("promote delayed jobs of queue `{queue}`");
    one(&doing, &sql::PROMOTE, &[&queue, &MOST, &within, &failed])
}
