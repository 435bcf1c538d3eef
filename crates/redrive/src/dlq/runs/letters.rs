//! The letters of a redrive run, and the outcome of each in this run.

use crate::dlq::prelude::*;
use crate::dlq::redrive::Skip;

words! {
    /// The outcome of a letter in a run. Later runs do not change it.
    pub enum RunOutcome is "outcome in a run" {
        /// The run has not sent it yet.
        Waiting = "waiting",
        /// The run ended without trying it.
        NotTried = "not_tried": "not tried",
        /// Its job is live.
        Sent = "sent",
        /// Its job succeeded.
        Recovered = "recovered",
        /// Its job died of the same failure.
        DiedAlike = "died_alike": "died again",
        /// Its job died of another failure.
        DiedDifferently = "died_differently": "died again of another failure",
        /// The run skipped it.
        Skipped = "skipped",
    }
}

row! {
    /// A letter of a run.
    #[derive(Copy, PartialEq, Eq)]
    pub struct RunLetter {
        /// The run.
        pub run: RunId,
        /// Its place in the run, from 1.
        pub place: u64,
        /// The letter.
        pub letter: JobId,
        /// Its state now; `None` if it was removed.
        pub state: Option<LetterState>,
        /// Its outcome in this run.
        pub outcome: RunOutcome,
        /// Why the run skipped it, if it did.
        pub skip: Option<Skip> = Skip::of_row,
    }
}

impl Runs<'_> {
    /// Returns the letters of a run after a place, 0 for the first page, at most `limit`.
    ///
    /// # Errors
    /// If the database fails.
    pub fn letters(&self, id: RunId, after: u64, limit: u32) -> Result<Vec<RunLetter>> {
        let doing = format!("list the letters of run {id}");
        let ask = self.db.ask_bulk();
        let (one, most) = (None::<JobId>, i64::from(limit));
        ask.all(&doing, &sql::RUN_LETTERS, &[&id, &after, &one, &most])
    }

    /// Returns the newest runs of a letter, at most `limit`, with its outcome in each.
    ///
    /// # Errors
    /// If the database fails.
    pub fn of_letter(&self, letter: JobId, limit: u32) -> Result<Vec<RunLetter>> {
        let doing = format!("list the runs of letter {letter}");
        let ask = self.db.ask();
        let (any, most) = (None::<RunId>, i64::from(limit));
        ask.all(&doing, &sql::RUN_LETTERS, &[&any, &0_u64, &letter, &most])
    }
}
