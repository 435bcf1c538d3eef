//! The audit log: manual changes, their operators and reasons.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;

use crate::db::admin::Admin;
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;
use crate::job::operator::Operator;
use crate::job::payload::JsonText;

/// The records per prune statement.
const PRUNE_BATCH: i64 = 5000;

/// A manual change, recorded in its own transaction. The audit log is append-only, except for
/// [`Admin::prune_audit`] and [`Dlq::erase`](crate::dlq::Dlq::erase).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The number of the record.
    pub id: i64,
    /// The time.
    pub at: SystemTime,
    /// The action: `redrive`, `discard`, `resolve_group`, …
    pub verb: String,
    /// The database role of the session.
    pub role: String,
    /// The operator's name.
    pub person: Option<String>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The filter of the change, as a JSON object.
    pub filter: Option<Box<RawValue>>,
    /// The number of changed letters or jobs.
    pub letters: u64,
    /// Details such as the run, the group or the policy.
    pub about: Option<Box<RawValue>>,
}

/// Selects audit records. An empty filter selects all of them.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    since_ms: Option<i64>,
    verb: Option<String>,
    before: Option<i64>,
    limit: Option<u64>,
}

impl AuditFilter {
    /// Selects all records.
    pub fn new() -> AuditFilter {
        AuditFilter::default()
    }

    /// Selects records younger than `ago`, by the database's clock.
    #[must_use]
    pub fn since(mut self, ago: Duration) -> AuditFilter {
        self.since_ms = Some(milliseconds(ago));
        self
    }

    /// Selects records of this action.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> AuditFilter {
        self.verb = Some(verb.into());
        self
    }

    /// Selects records before this number: the next page.
    #[must_use]
    pub fn before(mut self, id: i64) -> AuditFilter {
        self.before = Some(id);
        self
    }

    /// Selects at most `limit` records. Defaults to 50.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> AuditFilter {
        self.limit = Some(limit);
        self
    }
}

impl Admin<'_> {
    /// Returns audit records, newest first.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>> {
        let filter = filter.clone();
        let limit = i64::try_from(filter.limit.unwrap_or(50)).unwrap_or(i64::MAX);
        self.db.call_bulk("read the audit log", move |session| {
            let rows = session.query(
                "read the audit log",
                &sql::AUDIT,
                &[&filter.since_ms, &filter.verb, &filter.before, &limit],
            )?;
            let json = |text: Option<JsonText>| text.map(|text| text.raw_value()).transpose();
            rows.iter()
                .map(|row| {
                    Ok(AuditRecord {
                        id: row.get("id"),
                        at: row.get("at"),
                        verb: row.get("verb"),
                        role: row.get("role"),
                        person: row.get("person"),
                        reason: row.get("reason"),
                        filter: json(row.get("filter"))?,
                        letters: row.get::<_, i64>("letters").unsigned_abs(),
                        about: json(row.get("about"))?,
                    })
                })
                .collect()
        })
    }

    /// Counts the records that [`prune_audit`](Admin::prune_audit) would delete. Changes nothing.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer within a minute.
    pub fn count_prunable_audit(&self, older_than: Duration) -> Result<u64> {
        const DOING: &str = "count audit records to prune";
        let age_ms = milliseconds(older_than);
        self.db.call_bulk(DOING, move |session| {
            let row = session.query_one(DOING, &sql::COUNT_PRUNABLE_AUDIT, &[&age_ms])?;
            Ok(row.get::<_, i64>("records").unsigned_abs())
        })
    }

    /// Deletes audit records that are older than `older_than`, at least 30 days, in batches.
    /// Returns their number, and leaves a record for each batch.
    ///
    /// Calls `go_on` after each batch with the number deleted so far, and stops when it breaks.
    ///
    /// # Errors
    /// *Invalid* for an age below 30 days; otherwise if the database rejects a statement or
    /// does not answer.
    pub fn prune_audit(
        &self,
        older_than: Duration,
        operator: &Operator,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        const DOING: &str = "prune the audit log";
        let age_ms = milliseconds(older_than);
        let mut pruned = 0;
        loop {
            let operator = operator.clone();
            let batch = self.db.call_bulk(DOING, move |session| {
                let row = session.query_one(
                    DOING,
                    &sql::PRUNE_AUDIT,
                    &[
                        &age_ms,
                        &PRUNE_BATCH,
                        &operator.by(),
                        &operator.given_reason(),
                    ],
                )?;
                Ok(row.get::<_, i64>("pruned").unsigned_abs())
            })?;
            pruned += batch;
            if batch == 0 || go_on(pruned).is_break() {
                return Ok(pruned);
            }
        }
    }
}
