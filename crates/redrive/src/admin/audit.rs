//! The audit log: manual changes, their operators and reasons.

use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;

use crate::db::admin::Admin;
use crate::dlq::prelude::*;

/// The records per prune statement.
const PRUNE_BATCH: i64 = 5000;

row! {
    /// A manual change, recorded in its own transaction. The audit log is append-only, except for
    /// [`Admin::prune_audit`] and [`Dlq::erase`](crate::dlq::Dlq::erase).
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
        /// The first record of the operation, of which each batch has a record.
        pub operation: i64,
        /// The number that all batches of the operation changed.
        pub total: u64,
        /// Details such as the run, the group or the policy.
        pub about: Option<Box<RawValue>>,
    }
}

/// Selects audit records. An empty filter selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AuditFilter {
    since: Option<Duration>,
    verb: Option<String>,
    before: Option<i64>,
    limit: Option<u64>,
}

impl AuditFilter {
    /// Selects all records.
    pub fn new() -> AuditFilter {
        AuditFilter::default()
    }

    setters! {
        /// Selects records younger than `ago`, by the database's clock.
        pub fn since(self, ago: Duration) => self.since = Some(ago);

        /// Selects records of this action.
        pub fn verb(self, verb: impl Into<String>) => self.verb = Some(verb.into());

        /// Selects records before this number: the next page.
        pub fn before(self, id: i64) => self.before = Some(id);

        /// Selects at most `limit` records. Defaults to 50.
        pub fn limit(self, limit: u64) => self.limit = Some(limit);
    }
}

impl Admin<'_> {
    /// Returns audit records, newest first.
    ///
    /// # Errors
    /// If the database fails.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>> {
        self.db.ask_bulk().all(
            "read the audit log",
            &sql::AUDIT,
            &[
                &filter.since,
                &filter.verb,
                &filter.before,
                &filter.limit.unwrap_or(50),
            ],
        )
    }

    /// Counts the records that [`prune_audit`](Admin::prune_audit) would delete. Changes nothing.
    ///
    /// # Errors
    /// *Invalid* for an age below 30 days; otherwise if the database fails.
    pub fn count_prunable_audit(&self, older_than: Duration) -> Result<u64> {
        self.db.ask_bulk().one(
            "count audit records to prune",
            &sql::COUNT_PRUNABLE_AUDIT,
            &[&older_than],
        )
    }

    /// Deletes audit records that are older than `older_than`, at least 30 days, in batches.
    /// Returns their number, and leaves a record for each batch.
    ///
    /// # Errors
    /// *Invalid* for an age below 30 days; otherwise if the database fails.
    pub fn prune_audit(&self, older_than: Duration, operator: &Operator) -> Result<u64> {
        self.db.ask_bulk().until_none(
            "prune the audit log",
            &sql::PRUNE_AUDIT,
            &[&older_than, &PRUNE_BATCH, operator],
        )
    }
}
