//! Compares the published counters with the rows.

use std::fmt;

use crate::db::admin::Admin;
use crate::db::sql;
use crate::error::{Error, Result};

/// The counter rows folded before an audit.
const FOLD_ROWS: i32 = 50_000;

/// The rows that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CountedSet {
    /// Live jobs: ready, delayed and leased.
    Live,
    /// Dead letters in every state.
    Letters,
}

impl CountedSet {
    /// Returns the name used in the database, in metrics and by the CLI.
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

/// The audit of one queue and set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl Admin<'_> {
    /// Compares the counters with the rows as of one moment, and publishes the drift as
    /// `redrive_audit_drift_jobs`. Returns one entry per queue and set.
    ///
    /// This reads every job and letter, so run it off-peak.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// assert!(db.admin().audit_counters()?.iter().all(|audit| audit.drift == 0));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn audit_counters(&self) -> Result<Vec<CounterAudit>> {
        self.db.call_bulk("audit the counters", |session| {
            // New queues need their names first. A separate statement, because the
            // audit takes long.
            session.read_committed("fold the counters", |session| {
                session.query("fold the counters", &sql::FOLD_METRICS, &[&FOLD_ROWS])
            })?;
            let rows = session.read_committed("audit the counters", |session| {
                session.query("audit the counters", &sql::AUDIT_COUNTERS, &[])
            })?;
            rows.iter()
                .map(|row| {
                    Ok(CounterAudit {
                        queue: row.get("queue"),
                        set: match row.get("set") {
                            "live" => CountedSet::Live,
                            "dlq" => CountedSet::Letters,
                            other => {
                                return Err(Error::invalid(format!(
                                    "the audit of the counters returned an unknown set `{other}`"
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
