//! Erases everything about a person or tenant: jobs, letters and the traces they left.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::dlq::prelude::*;

/// The rows per place and statement.
const BATCH: i64 = 2000;
/// The pause after a batch that gave up.
const PAUSE: Duration = Duration::from_millis(50);
/// Why a filter with a limit is refused: it would erase any part of a person.
const WHOLE: &str = "an erasure takes everything that matches and has no limit";

/// The rows that an erasure removed or changed, or would remove or change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Erasure {
    /// Deleted jobs that were ready or delayed.
    pub jobs: u64,
    /// Leased jobs, which stay: cancel them, or erase again once they have ended.
    pub leased: u64,
    /// Deleted letters.
    pub letters: u64,
    /// Deleted earlier payloads of letters that stay.
    pub versions: u64,
    /// Deleted letters of the archive.
    #[serde(rename = "archive")]
    pub archived: u64,
    /// Failure groups without a letter, whose title is now `[erased]`. A preview does not count them.
    pub groups: u64,
    /// Audit records whose filter no longer names the values.
    pub audit: u64,
    /// Ended redrive runs whose filter no longer names the values.
    pub runs: u64,
}

impl Erasure {
    /// Returns whether the erasure changes nothing. Leased jobs do not count.
    pub fn is_empty(&self) -> bool {
        Erasure { leased: 0, ..*self } == Erasure::default()
    }

    /// Returns the number of deleted rows, which take almost all of the time.
    pub fn rows(&self) -> u64 {
        self.jobs + self.letters + self.versions + self.archived
    }

    /// Returns the numbers by their places. A newer version of the schema may erase from further ones.
    fn of(places: &BTreeMap<String, u64>) -> Erasure {
        // Numbers by names always fit.
        serde_json::from_value(json!(places)).unwrap_or_default()
    }
}

impl Dlq<'_> {
    /// Counts what [`erase`](Dlq::erase) would remove, and the leased jobs that it would leave.
    /// Changes nothing. It reads every job and letter.
    ///
    /// # Errors
    /// Those of [`erase`](Dlq::erase).
    pub fn erasable(&self, filter: &LetterFilter) -> Result<Erasure> {
        let parameter = filter.unlimited(WHOLE)?;
        let places: Vec<(String, u64)> =
            self.db
                .ask_bulk()
                .all("count what to erase", &sql::ERASABLE, &[&parameter])?;
        Ok(Erasure::of(&places.into_iter().collect()))
    }

    /// Erases everything that matches: waiting jobs, letters with their versions, and archived
    /// letters. Returns the numbers.
    ///
    /// The filter selects by payload or ids, and perhaps by queue and kind. The titles of failure groups that have no
    /// other letter, the stored details of erased letters, and the payload conditions of audit records and ended runs
    /// that name the values, become `[erased]` for good. The audit keeps a record with the operator and the numbers, but not
    /// the filter.
    ///
    /// A leased job stays, and so does its letter; see [`Erasure::leased`]. Captured bytes that
    /// are not JSON match only by id. This cannot be undone. Each batch is one transaction, and
    /// repeating the call is safe. A batch gives way to a transaction that has locked a job for
    /// half a second, and is repeated until [`bulk_timeout`](crate::DatabaseBuilder::bulk_timeout).
    ///
    /// # Errors
    /// *Invalid* with another condition, without a condition on the payload or ids, with a limit,
    /// or with [`LetterFilter::after`]; *unavailable* while another transaction holds a lock for
    /// longer than that; otherwise if the database fails.
    pub fn erase(&self, filter: &LetterFilter, operator: &Operator) -> Result<Erasure> {
        let parameter = filter.unlimited(WHOLE)?;
        let mut places = BTreeMap::new();
        let mut audit: Option<i64> = None;
        loop {
            let batch = self.erase_batch(&parameter, operator, audit)?;
            let is_last = batch.is_empty();
            for (place, entries, first) in batch {
                audit = first;
                *places.entry(place).or_insert(0) += entries;
            }
            let erased = Erasure::of(&places);
            if is_last || self.db.go_on(erased.rows().into()).is_break() {
                return Ok(erased);
            }
        }
    }

    /// Erases a batch, again each time it waits too long for a lock.
    fn erase_batch(
        self,
        filter: &Json,
        operator: &Operator,
        audit: Option<i64>,
    ) -> Result<Vec<(String, u64, Option<i64>)>> {
        let until = Instant::now() + self.db.bulk_timeout();
        loop {
            let batch = self.db.ask_bulk().all(
                "erase",
                &sql::ERASE_BATCH,
                &[filter, &BATCH, operator, &audit],
            );
            match batch {
                Err(error) if error.is_locked() && Instant::now() + PAUSE < until => {
                    thread::sleep(PAUSE);
                }
                Err(error) if error.is_locked() => {
                    return Err(error.with_advice(
                        "another transaction holds a lock; end it and erase again for the rest",
                    ));
                }
                batch => return batch,
            }
        }
    }
}
