//! Redrives letters: sends them back into their queues as jobs with the same id and fresh attempts.

mod options;
mod blocked;
mod preview;

use postgres::Row;

use crate::dlq::prelude::*;

pub use blocked::Blocked;
pub use options::RedriveOptions;
pub use preview::{LeftOut, RedrivePreview};

/// The outcome of a redrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// Letters that are jobs again.
    pub redriven: Vec<JobId>,
    /// Matching letters that were not redriven, and letters named by id that did not match, with the reason.
    pub skipped: Vec<(JobId, Skip)>,
}

words! {
    /// The reason why a letter was skipped.
    pub enum Skip is "reason" {
        /// The letter does not exist.
        Gone = "gone": "the letter does not exist",
        /// The letter is redriving, recovered or discarded.
        NotOpen = "not_open": "the letter is not open",
        /// The letter is quarantined. Only [`force`](RedriveOptions::force) moves it.
        Quarantined = "quarantined": "the letter is quarantined; only force redrives it",
        /// The letter was captured and its bytes exceed 16 MiB. They are not parsed.
        TooLarge = "too_large": "the captured bytes exceed 16 MiB",
        /// The letter was captured and its bytes are not JSON.
        NoJson = "no_json": "the captured bytes are not JSON",
        /// The letter's payload was redacted. Only [`force`](RedriveOptions::force) moves it.
        Redacted = "redacted": "its payload was redacted; only force redrives it",
        /// The letter has died again since the run was created: another operation redrove it.
        DiedAgain = "died_again": "the letter has died again since the run was created",
        /// The run sent the letter before an earlier one of its group, so its job became a letter again without an attempt.
        Diverted = "diverted": "an earlier letter of its group is open, so its job was diverted again",
        /// A live job holds the letter's unique key.
        Conflict = "conflict": "a live job holds its unique key",
        /// A consumer of `dlq_events` has claimed the letter.
        Claimed = "claimed": "a consumer has claimed the letter",
        /// Another operation had locked the letter, or it did not match the rest of the filter.
        Locked = "locked": "the letter is locked by another operation or does not match the filter",
    }
}

impl Skip {
    /// Reads what the database says after it has acted. A reason of a newer schema must not fail the call.
    pub(crate) fn of_stored(word: &str) -> Skip {
        word.parse().unwrap_or(Skip::NotOpen)
    }

    /// Reads why a run skipped the letter of a row, if it did.
    pub(crate) fn of_row(row: &Row) -> Option<Skip> {
        row.get::<_, Option<&str>>("skip").map(Skip::of_stored)
    }
}

impl Dlq<'_> {
    /// Redrives open letters, oldest death first. Those of a diverted group go in the order of their jobs.
    ///
    /// A letter keeps its id, history and priority and gets all its attempts again. The call is
    /// one transaction with its audit row: create a [run](crate::dlq::runs::Runs::create) for more than
    /// 20,000 letters.
    ///
    /// # Errors
    /// *Invalid* if more than 20,000 letters match and the filter has no lower limit; if the database fails.
    pub fn redrive(&self, filter: &LetterFilter, operator: &Operator) -> Result<Redriven> {
        self.redrive_with(filter, &RedriveOptions::new(), operator)
    }

    /// Redrives open letters with options.
    ///
    /// # Errors
    /// *Invalid* if an option is out of range or `force` has no reason; otherwise if the database
    /// fails.
    pub fn redrive_with(
        &self,
        filter: &LetterFilter,
        options: &RedriveOptions,
        operator: &Operator,
    ) -> Result<Redriven> {
        let tried: Vec<(JobId, String)> = self.db.ask_bulk().all(
            "redrive letters",
            &sql::REDRIVE_LETTERS,
            &[
                &filter.recorded()?,
                &filter.limit.unwrap_or(u64::MAX),
                operator,
                &options.to_queue,
                &options.priority.map(i32::from),
                &options.max_attempts,
                &options.force,
                &options.delay,
            ],
        )?;
        let mut done = Redriven::default();
        for (id, result) in tried {
            match &*result {
                "sent" => done.redriven.push(id),
                why => done.skipped.push((id, Skip::of_stored(why))),
            }
        }
        Ok(done)
    }
}
