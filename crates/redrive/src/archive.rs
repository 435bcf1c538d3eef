//! The archive: letters that retention took out of the table, whole.

use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::database::Database;
use crate::error::Result;
use crate::job::JobId;
use crate::payload::JsonText;
use crate::sql;

/// A letter in the archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchivedLetter {
    /// The id of the letter, and of its job.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// When it was archived.
    pub archived_at: SystemTime,
    /// All of it as one JSON object, by the names of the columns of `redrive.dead_letters`; captured
    /// bytes as base64 in `raw_base64`.
    pub letter: Box<RawValue>,
}

impl Database {
    /// Reads the archive of a queue, or of every queue, in the order of the ids: up to `limit`
    /// letters, those after `after` when it is given.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn archived_letters(
        &self,
        queue: Option<&str>,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<ArchivedLetter>> {
        let queue = queue.map(str::to_owned);
        let after = after.map(JobId::get);
        self.call_bulk("read the archive", move |session| {
            let rows = session.query(
                "read the archive",
                &sql::ARCHIVED_LETTERS,
                &[&queue, &after, &i64::from(limit)],
            )?;
            let archived = |row: &postgres::Row| {
                Ok(ArchivedLetter {
                    id: JobId::new(row.get("id")),
                    queue: row.get("queue"),
                    archived_at: row.get("archived_at"),
                    letter: row.get::<_, JsonText>("letter").raw_value()?,
                })
            };
            rows.iter().map(archived).collect()
        })
    }
}
