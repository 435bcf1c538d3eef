//! The policies as the database has them: what they are, what their last tick did, who runs them.

use std::time::{Duration, SystemTime};

use postgres::Row;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Hours, PolicyBreaker, PolicyMode};
use crate::database::Database;
use crate::error::Result;
use crate::payload::JsonText;
use crate::sql;

/// A policy, and how it fares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// Its name.
    pub name: String,
    /// The filter of its letters, as the SQL functions take it.
    pub filter: Box<RawValue>,
    /// From one tick to the next.
    pub every: Duration,
    /// By how much a letter's time from death to tick grows with each generation.
    pub growth: f64,
    /// The most that this time grows to.
    pub longest_delay: Duration,
    /// The most letters that a tick sends back.
    pub batch: u32,
    /// A letter that was redriven this often is left alone.
    pub generations: u32,
    /// The hours of its ticks; `None`: any.
    pub hours: Option<Hours>,
    /// What it does while a breaker is not closed.
    pub breaker: PolicyBreaker,
    /// What it does at its ticks.
    pub mode: PolicyMode,
    /// Whether it waits for the breaker of its queue.
    pub is_held: bool,
    /// When the next tick is due, by the database's clock.
    pub next_at: SystemTime,
    /// When the last one was.
    pub last_at: Option<SystemTime>,
    /// How many letters the last tick sent back, or would have in a dry run.
    pub last_letters: u64,
    /// Why the last tick failed; `None`: it did not.
    pub last_trouble: Option<String>,
    /// How many letters it sent back ever.
    pub sent: u64,
    /// How often another process took it over.
    pub term: u64,
    /// The worker that runs it, while its lease lasts.
    pub holder: Option<Uuid>,
    /// The host of that worker.
    pub host: Option<String>,
    /// The process of that worker.
    pub pid: Option<u32>,
}

impl Database {
    /// Lists the policies, by name.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn policies(&self) -> Result<Vec<PolicyStatus>> {
        self.call("list the policies", |session| {
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
        (Some(from), Some(to)) => Some(Hours::between(from, to)?),
        (None, _) | (_, None) => None,
    };
    Ok(PolicyStatus {
        name: row.get("name"),
        filter: filter.raw_value()?,
        every: span("every_ms"),
        growth: row.get("growth"),
        longest_delay: span("longest_ms"),
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
        last_trouble: row.get("last_trouble"),
        sent: row.get::<_, i64>("sent").unsigned_abs(),
        term: row.get::<_, i64>("term").unsigned_abs(),
        holder: row.get("holder"),
        host: row.get("host"),
        pid: row.get::<_, Option<i32>>("pid").map(i32::unsigned_abs),
    })
}
