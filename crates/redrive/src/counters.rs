//! Counters: whether the numbers that are published are those of the rows.

use std::fmt;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::sql;

/// How many counts are folded before an audit.
const FOLD_ROWS: i32 = 50_000;

/// Which rows a counter is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedSet {
    /// Live jobs: ready, delayed and leased.
    Live,
    /// Dead letters in every state.
    Letters,
}

impl CountedSet {
    /// The word for it in the database, in metrics and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            CountedSet::Live => "live",
            CountedSet::Letters => "dlq",
        }
    }
}

impl fmt::Display for CountedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the audit of the counters found for one queue and set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterAudit {
    /// The queue; `__other__`: all those that have no slot of their own, together.
    pub queue: String,
    /// What was counted.
    pub set: CountedSet,
    /// How many rows there are.
    pub rows: i64,
    /// How many there are by the totals.
    pub total: i64,
    /// Rows less total; when those are equal and the states of letters differ, by how much the
    /// states do. Anything but 0 is a bug, or the work of a program of an older version.
    pub drift: i64,
}

impl Database {
    /// Compares the counters with the rows, exactly and as of one moment, and stores the drift,
    /// which is then published as `redrive_audit_drift_jobs`. One answer for each queue and set.
    ///
    /// It reads every job and letter: run it when the server has time.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// assert!(db.audit_counters()?.iter().all(|audit| audit.drift == 0));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn audit_counters(&self) -> Result<Vec<CounterAudit>> {
        self.call_bulk("audit the counters", |session| {
            // So that new queues have their names. Apart, because the audit takes long.
            session.query("fold the counters", &sql::FOLD_METRICS, &[&FOLD_ROWS])?;
            let rows = session.query("audit the counters", &sql::AUDIT_COUNTERS, &[])?;
            rows.iter()
                .map(|row| {
                    Ok(CounterAudit {
                        queue: row.get("queue"),
                        set: match row.get("set") {
                            "live" => CountedSet::Live,
                            "dlq" => CountedSet::Letters,
                            other => {
                                return Err(Error::invalid(format!(
                                    "the audit of the counters tells of an unknown set, `{other}`"
                                )));
                            }
                        },
                        rows: row.get("rows"),
                        total: row.get("total"),
                        drift: row.get("drift"),
                    })
                })
                .collect()
        })
    }
}
