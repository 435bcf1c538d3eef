//! The letters of a redrive run, and the outcome of each in this run.

use std::fmt;

use postgres::Row;

use crate::dlq::prelude::*;
use crate::dlq::redrive::Skip;

/// The outcome of a letter in a run. Later runs do not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The run has not sent it yet.
    Waiting,
    /// The run ended without trying it.
    NotTried,
    /// Its job is live.
    Sent,
    /// Its job succeeded.
    Recovered,
    /// Its job died of the same failure.
    DiedAlike,
    /// Its job died of another failure.
    DiedDifferently,
    /// The run skipped it.
    Skipped(Skip),
}

impl RunOutcome {
    /// Returns the name used in JSON. [`Skipped`](RunOutcome::Skipped) leaves out its reason.
    pub fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Waiting => "waiting",
            RunOutcome::NotTried => "not_tried",
            RunOutcome::Sent => "sent",
            RunOutcome::Recovered => "recovered",
            RunOutcome::DiedAlike => "died_alike",
            RunOutcome::DiedDifferently => "died_differently",
            RunOutcome::Skipped(_) => "skipped",
        }
    }

    fn of(word: &str) -> Result<RunOutcome> {
        Ok(match word {
            "waiting" => RunOutcome::Waiting,
            "not_tried" => RunOutcome::NotTried,
            "sent" => RunOutcome::Sent,
            "recovered" => RunOutcome::Recovered,
            "died_alike" => RunOutcome::DiedAlike,
            "died_differently" => RunOutcome::DiedDifferently,
            word => match word.strip_prefix("skipped_") {
                Some(reason) => RunOutcome::Skipped(Skip::of_stored(reason)),
                None => {
                    return Err(Error::invalid(format!(
                        "unknown outcome `{}`",
                        word.escape_debug()
                    )));
                }
            },
        })
    }

    fn of_row(row: &Row) -> Result<RunOutcome> {
        RunOutcome::of(row.get("outcome"))
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunOutcome::Waiting => f.write_str("waiting"),
            RunOutcome::NotTried => f.write_str("not tried"),
            RunOutcome::Sent => f.write_str("sent"),
            RunOutcome::Recovered => f.write_str("recovered"),
            RunOutcome::DiedAlike => f.write_str("died again"),
            RunOutcome::DiedDifferently => f.write_str("died again of another failure"),
            RunOutcome::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

row! {
    /// A letter of a run.
    #[derive(Copy, PartialEq, Eq)]
    pub struct RunLetter {
        /// Its place in the run, from 1.
        pub place: u64,
        /// The letter.
        pub letter: JobId,
        /// Its state now; `None` if it was removed.
        pub state: Option<LetterState>,
        /// Its outcome in this run.
        pub outcome: RunOutcome => RunOutcome::of_row,
    }
}

row! {
    /// A run of a letter.
    #[derive(Copy, PartialEq, Eq)]
    pub struct LetterRun {
        /// The run.
        pub run: RunId,
        /// The outcome of the letter in this run.
        pub outcome: RunOutcome => RunOutcome::of_row,
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
        ask.all(&doing, &sql::RUN_LETTERS, &[&id, &after, &i64::from(limit)])
    }

    /// Returns the newest runs of a letter, at most `limit`, with its outcome in each.
    ///
    /// # Errors
    /// If the database fails.
    pub fn of_letter(&self, letter: JobId, limit: u32) -> Result<Vec<LetterRun>> {
        let doing = format!("list the runs of letter {letter}");
        let ask = self.db.ask();
        ask.all(&doing, &sql::LETTER_RUNS, &[&letter, &i64::from(limit)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_back() {
        for (word, outcome) in [
            ("not_tried", Some(RunOutcome::NotTried)),
            ("died_alike", Some(RunOutcome::DiedAlike)),
            (
                "skipped_conflict",
                Some(RunOutcome::Skipped(Skip::Conflict)),
            ),
            // Of a newer schema.
            ("skipped_haunted", Some(RunOutcome::Skipped(Skip::NotOpen))),
            ("painted", None),
        ] {
            let read = RunOutcome::of(word).ok();
            assert_eq!(read, outcome, "{word}");
            let written = read.map(RunOutcome::as_str);
            assert!(written.is_none_or(|written| word.starts_with(written)));
        }
    }
}
