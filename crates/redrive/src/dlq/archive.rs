//! The archive: letters that retention moved out of the table.

use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::db::sql;
use crate::dlq::handle::Dlq;
use crate::error::Result;
use crate::job::job::JobId;
use crate::job::payload::JsonText;

/// A letter in the archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchivedLetter {
    /// The id of the letter, and of its job.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// When retention archived the letter.
    pub archived_at: SystemTime,
    /// The whole row of `redrive.dead_letters` as a JSON object; captured bytes are base64
    /// in `raw_base64`.
    pub letter: Box<RawValue>,
}

impl Dlq<'_> {
    /// Returns archived letters of a queue, or of all queues, in the order of ids: at most
    /// `limit`, after `after`.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn archived(
        &self,
        queue: Option<&str>,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<ArchivedLetter>> {
        let queue = queue.map(str::to_owned);
        let after = after.map(JobId::get);
        self.db.call_bulk("read the archive", move |session| {
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
