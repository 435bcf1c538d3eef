//! Compares the published counters with the rows.

use crate::db::admin::Admin;
use crate::dlq::prelude::*;

/// The counter rows folded before an audit.
const FOLD_ROWS: i32 = 50_000;

words! {
    /// The rows that a counter counts.
    pub enum CountedSet is "counted set" {
        /// Live jobs: ready, delayed and leased.
        Live = "live",
        /// Dead letters in every state.
        Letters = "dlq",
    }
}

row! {
    /// The audit of one queue and set.
    #[derive(PartialEq, Eq)]
    pub struct CounterAudit {
        /// The queue; `__other__` is all queues without a metric slot.
        pub queue: String,
        /// The set.
        pub set: CountedSet,
        /// The number of rows.
        pub rows: i64,
        /// The number by the counters.
        pub total: i64,
        /// Rows minus total; if these are equal, the difference between the letter states. A
        /// value other than 0 is a bug or comes from an older version of the program.
        pub drift: i64,
    }
}

impl Admin<'_> {
    /// Compares the counters with the rows as of one moment. Returns one entry per queue and set.
    ///
    /// This reads every job and letter, so run it off-peak.
    ///
    /// # Errors
    /// If the database fails.
    pub fn audit_counters(&self) -> Result<Vec<CounterAudit>> {
        let ask = self.db.ask_bulk();
        // New queues need their names first. The audit is another call, because it takes long.
        ask.rows("fold the counters", &sql::FOLD_METRICS, &[&FOLD_ROWS])?;
        ask.all("audit the counters", &sql::AUDIT_COUNTERS, &[])
    }
}
