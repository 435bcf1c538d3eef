//! Erases everything about a person or tenant: jobs, letters and the traces they left.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::dlq::prelude::*;

/// The rows per place and statement.
const BATCH: i64 = 2000;
/// The pause while another transaction holds the rest.
const PAUSE: Duration = Duration::from_millis(500);
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
    /// repeating the call is safe. It leaves out what another transaction holds, and comes back to it until it has waited
    /// for [`bulk_timeout`](crate::DatabaseBuilder::bulk_timeout).
    ///
    /// # Errors
    /// *Invalid* with another condition, without a condition on the payload or ids, with a limit,
    /// or with [`LetterFilter::after`]; *unavailable* if another transaction holds a row for
    /// longer than that; otherwise if the database fails.
    pub fn erase(&self, filter: &LetterFilter, operator: &Operator) -> Result<Erasure> {
        let parameter = filter.unlimited(WHOLE)?;
        let mut places = BTreeMap::new();
        let mut audit: Option<i64> = None;
        let mut until = Instant::now() + self.db.bulk_timeout();
        loop {
            let batch: Vec<(String, u64, Option<i64>)> = self.db.ask_bulk().all(
                "erase",
                &sql::ERASE_BATCH,
                &[&parameter, &BATCH, operator, &audit],
            )?;
            let is_last = batch.is_empty();
            let is_held = batch.iter().all(|(_, entries, _)| *entries == 0);
            for (place, entries, first) in batch {
                audit = first;
                *places.entry(place).or_insert(0) += entries;
            }
            let erased = Erasure::of(&places);
            if is_last || self.db.go_on(erased.rows().into()).is_break() {
                return Ok(erased);
            }
            match is_held {
                false => until = Instant::now() + self.db.bulk_timeout(),
                true if Instant::now() < until => thread::sleep(PAUSE),
                true => {
                    return Err(Error::unavailable(
                        "could not erase all: another transaction holds the rest; end it and erase again",
                    ));
                }
            }
        }
    }
}
