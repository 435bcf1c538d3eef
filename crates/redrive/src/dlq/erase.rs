//! Erases everything about a person or tenant: jobs, letters and the traces they left.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use crate::dlq::prelude::*;

/// The rows per place and statement.
const BATCH: i64 = 2000;
/// The pause after a batch that gave up.
const PAUSE: Duration = Duration::from_millis(50);
/// Why a filter with a limit is refused: it would erase any part of a person.
const WHOLE: &str = "an erasure takes everything that matches and has no limit";

/// The rows that an erasure removed or changed, or would remove or change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub archived: u64,
    /// Failure groups with another sample. A preview does not count them.
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

    fn add(&mut self, place: &str, entries: u64) {
        match place {
            "jobs" => self.jobs += entries,
            "leased" => self.leased += entries,
            "letters" => self.letters += entries,
            "versions" => self.versions += entries,
            "archive" => self.archived += entries,
            "groups" => self.groups += entries,
            "audit" => self.audit += entries,
            "runs" => self.runs += entries,
            // A newer version of the schema erases from a further place.
            _ => {}
        }
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
        let mut found = Erasure::default();
        for (place, entries) in &places {
            found.add(place, *entries);
        }
        Ok(found)
    }

    /// Erases everything that matches: waiting jobs, letters with their versions, and archived
    /// letters. Returns the numbers.
    ///
    /// The filter selects by payload or ids, and perhaps by queue and kind. Failure groups of
    /// erased letters get the message of another letter as sample, or `[erased]`; their stored
    /// details, and the payload conditions of audit records and ended runs that name the values,
    /// become `[erased]`. The audit keeps a record with the operator and the numbers, but not
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
        self.erase_while(filter, operator, |_| ControlFlow::Continue(()))
    }

    /// Erases as [`erase`](Dlq::erase) does, calls `go_on` after each batch with everything erased
    /// so far, and stops when it breaks.
    ///
    /// # Errors
    /// Those of [`erase`](Dlq::erase).
    pub fn erase_while(
        &self,
        filter: &LetterFilter,
        operator: &Operator,
        mut go_on: impl FnMut(&Erasure) -> ControlFlow<()>,
    ) -> Result<Erasure> {
        let parameter = filter.unlimited(WHOLE)?;
        let mut erased = Erasure::default();
        let mut audit: Option<i64> = None;
        loop {
            let batch = self.erase_batch(&parameter, operator, audit)?;
            let Some((_, _, first)) = batch.first() else {
                break;
            };
            audit = *first;
            for (place, entries, _) in &batch {
                erased.add(place, *entries);
            }
            if go_on(&erased).is_break() {
                break;
            }
        }
        Ok(erased)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erasure_counts_each_place() {
        let places = [
            "jobs", "leased", "letters", "versions", "archive", "groups", "audit", "runs",
        ];
        let mut erasure = Erasure::default();
        for (place, entries) in places.iter().zip(1..) {
            erasure.add(place, entries);
        }
        let counted = [
            erasure.jobs,
            erasure.leased,
            erasure.letters,
            erasure.versions,
            erasure.archived,
            erasure.groups,
            erasure.audit,
            erasure.runs,
        ];
        assert_eq!(counted, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn leased_jobs_alone_are_nothing_to_erase() {
        let mut erasure = Erasure::default();
        erasure.add("leased", 3);
        assert!(erasure.is_empty());
        erasure.add("audit", 1);
        assert!(!erasure.is_empty());
    }
}
