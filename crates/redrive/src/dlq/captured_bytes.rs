//! Reads the unchanged bytes of captured failures.

use crate::db::row::first;
use crate::dlq::prelude::*;

impl Dlq<'_> {
    /// Returns the unchanged bytes of a captured failure, by the id of its letter or of its
    /// job; `None`: there are none.
    ///
    /// A handler that needs a payload byte for byte calls this with [`Job::id`](crate::Job::id):
    /// the payload of a job keeps its values, but not its spaces, the order of its members, or
    /// a member that occurs twice. An edit and a redaction drop the bytes.
    ///
    /// # Errors
    /// If the database fails.
    pub fn captured_bytes(&self, id: JobId) -> Result<Option<Vec<u8>>> {
        self.bytes(id, &sql::CAPTURED_BYTES)
    }

    /// Returns the unchanged captured bytes of a letter in the archive; `None`: there are none.
    ///
    /// # Errors
    /// If the database fails.
    pub fn archived_bytes(&self, id: JobId) -> Result<Option<Vec<u8>>> {
        self.bytes(id, &sql::ARCHIVED_BYTES)
    }

    fn bytes(self, id: JobId, sql: &'static sql::Sql) -> Result<Option<Vec<u8>>> {
        let doing = format!("read the captured bytes of letter {id}");
        let rows = self.db.ask_bulk().rows(&doing, sql, &[&id])?;
        Ok(first::<Option<Vec<u8>>>(&rows)?.flatten())
    }
}
