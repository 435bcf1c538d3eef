//! The policies, as the database stores them.

use std::time::{Duration, SystemTime};

use postgres::Row;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{PolicyBreaker, PolicyMode, UtcHours};
use crate::db::sql;
use crate::dlq::handle::Policies;
use crate::error::Result;
use crate::job::payload::JsonText;

/// A policy and its progress.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// The name.
    pub name: String,
    /// The filter, as the SQL functions take it.
    pub filter: Box<RawValue>,
    /// The interval between ticks.
    pub every: Duration,
    /// The factor by which the delay grows with each generation.
    pub growth: f64,
    /// The longest delay.
    pub longest_delay: Duration,
    /// The letters per tick.
    pub batch: u32,
    /// The generation at which a letter is left open.
    pub generations: u32,
    /// The hours of its ticks; `None` is any hour.
    pub hours: Option<UtcHours>,
    /// The behavior while the breaker is open or the queue is paused.
    pub breaker: PolicyBreaker,
    /// The mode.
    pub mode: PolicyMode,
    /// Whether it is waiting for the breaker of its queue or the end of a pause.
    pub is_held: bool,
    /// When the next tick is due, by the database's clock.
    pub next_at: SystemTime,
    /// When the last tick ran.
    pub last_at: Option<SystemTime>,
    /// Letters that the last tick redrove, or would have in a dry run.
    pub last_letters: u64,
    /// The error of the last tick.
    pub last_trouble: Option<String>,
    /// Letters redriven in total.
    pub sent: u64,
    /// How many times another process took the policy over.
    pub term: u64,
    /// The worker that holds the policy's lease.
    pub holder: Option<Uuid>,
    /// The worker's host.
    pub host: Option<String>,
    /// The worker's process id.
    pub pid: Option<u32>,
}

impl Policies<'_> {
    /// Returns all policies by name.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn list(&self) -> Result<Vec<PolicyStatus>> {
        self.db.call("list the policies", |session| {
            let rows = session.query("list the policies", &sql::POLICIES, &[])?;
            rows.iter().map(status).collect()
        })
    }
}

fn status(row: &Row) -> Result<PolicyStatus> {
    let filter: JsonText = row.get("filter");
    let span = |column| Duration::from_millis(row.get::<_, i64>(column).unsigned_abs());
    let hour = |column| {
        let hour: Option<i16> = row.get(column);
        hour.and_then(|hour| u8::try_from(hour).ok())
    };
    let hours = match (hour("from_hour"), hour("to_hour")) {
        (Some(from), Some(to)) => Some(UtcHours::between(from, to)?),
        (None, _) | (_, None) => None,
    };
    Ok(PolicyStatus {
        name: row.get("name"),
        filter: filter.raw_value()?,
        every: span("every_ms"),
        growth: row.get("growth"),
        longest_delay: span("max_delay_ms"),
        batch: row.get::<_, i32>("batch").unsigned_abs(),
        generations: row.get::<_, i32>("generations").unsigned_abs(),
        hours,
        breaker: match row.get("while_closed") {
            true => PolicyBreaker::Heed,
            false => PolicyBreaker::Ignore,
        },
        mode: row.get::<_, &str>("mode").parse()?,
        is_held: row.get("is_held"),
        next_at: row.get("next_at"),
        last_at: row.get("last_at"),
        last_letters: row.get::<_, i64>("last_letters").unsigned_abs(),
        last_trouble: row.get("last_error"),
        sent: row.get::<_, i64>("sent").unsigned_abs(),
        term: row.get::<_, i64>("term").unsigned_abs(),
        holder: row.get("holder"),
        host: row.get("host"),
        pid: row.get::<_, Option<i32>>("pid").map(i32::unsigned_abs),
    })
}
