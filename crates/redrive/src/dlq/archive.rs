//! The archive: letters that retention moved out of the table.

mod restore;
mod delete;

use std::time::SystemTime;

use crate::db::sql;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::dlq::letter::{Letter, letter};
use crate::error::Result;
use crate::job::job::JobId;

pub use restore::{NotRestored, Restored};

/// A letter in the archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchivedLetter {
    /// When retention archived the letter.
    pub archived_at: SystemTime,
    /// The letter as it was then.
    pub letter: Letter,
}

impl Dlq<'_> {
    /// Returns archived letters that match, in the order of ids. The limit defaults to 50;
    /// [`LetterFilter::after`] selects the next page.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn archived(&self, filter: &LetterFilter) -> Result<Vec<ArchivedLetter>> {
        const DOING: &str = "read the archive";
        let (after, limit) = (filter.after.map(JobId::get), filter.most(50));
        let filter = filter.parameter()?;
        self.db.call_bulk(DOING, move |session| {
            let rows = session.query(DOING, &sql::ARCHIVED_LETTERS, &[&filter, &after, &limit])?;
            let archived = |row: &postgres::Row| {
                Ok(ArchivedLetter {
                    archived_at: row.get("archived_at"),
                    letter: letter(row)?,
                })
            };
            rows.iter().map(archived).collect()
        })
    }

    /// Returns one archived letter.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn archived_letter(&self, id: JobId) -> Result<Option<ArchivedLetter>> {
        Ok(self.archived(&LetterFilter::new().ids([id]))?.pop())
    }

    /// Counts archived letters that match, ignoring the limit.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database rejects the
    /// statement or does not answer within a minute.
    pub fn count_archived(&self, filter: &LetterFilter) -> Result<u64> {
        const DOING: &str = "count archived letters";
        filter.refuse_after()?;
        let filter = filter.parameter()?;
        self.db.call_bulk(DOING, move |session| {
            let row = session.query_one(DOING, &sql::COUNT_ARCHIVED, &[&filter])?;
            Ok(row.get::<_, i64>("letters").unsigned_abs())
        })
    }
}
