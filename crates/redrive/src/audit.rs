//! The audit: who did what to the letters, and why.

use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;

use crate::database::Database;
use crate::error::Result;
use crate::job::milliseconds;
use crate::payload::JsonText;
use crate::sql;

/// An act that was written into the audit, in its own transaction. The audit is append-only.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its number.
    pub id: i64,
    /// When.
    pub at: SystemTime,
    /// What: `redrive`, `discard`, `resolve_group`, …
    pub verb: String,
    /// The database role of the session.
    pub role: String,
    /// Who the program says it acted for.
    pub person: Option<String>,
    /// Why, in the person's words.
    pub why: Option<String>,
    /// The filter that it acted on: a JSON object.
    pub filter: Option<Box<RawValue>>,
    /// How many letters it changed.
    pub letters: u64,
    /// What else there is to know: the run, the group, the policy.
    pub about: Option<Box<RawValue>>,
}

/// Which records of the audit a call means: all of them, narrowed by each of its methods.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    since_ms: Option<i64>,
    verb: Option<String>,
    before: Option<i64>,
    limit: Option<u64>,
}

impl Audit {
    /// All records.
    pub fn all() -> Audit {
        Audit::default()
    }

    /// Only acts since this long ago, by the database's clock.
    #[must_use]
    pub fn since(mut self, ago: Duration) -> Audit {
        self.since_ms = Some(milliseconds(ago));
        self
    }

    /// Only acts with this verb.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Audit {
        self.verb = Some(verb.into());
        self
    }

    /// Only records before the one with this number: the next page.
    #[must_use]
    pub fn before(mut self, id: i64) -> Audit {
        self.before = Some(id);
        self
    }

    /// At most this many. Defaults to 50.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Audit {
        self.limit = Some(limit);
        self
    }
}

impl Database {
    /// Reads the audit, the newest act first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn audit(&self, which: &Audit) -> Result<Vec<AuditRecord>> {
        let which = which.clone();
        let limit = i64::try_from(which.limit.unwrap_or(50)).unwrap_or(i64::MAX);
        self.call_bulk("read the audit", move |session| {
            let rows = session.query(
                "read the audit",
                &sql::AUDIT,
                &[&which.since_ms, &which.verb, &which.before, &limit],
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
                        why: row.get("why"),
                        filter: json(row.get("filter"))?,
                        letters: row.get::<_, i64>("letters").unsigned_abs(),
                        about: json(row.get("about"))?,
                    })
                })
                .collect()
        })
    }
}
