//! Reads the unchanged bytes of captured failures.

use postgres::Row;

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
        let (doing, ask) = (doing(id), self.db.ask_bulk());
        Ok(bytes(&ask.rows(&doing, &sql::CAPTURED_BYTES, &[&id])?))
    }

    /// Returns the unchanged captured bytes of a letter in the archive; `None`: there are none.
    ///
    /// # Errors
    /// If the database fails.
    pub fn archived_bytes(&self, id: JobId) -> Result<Option<Vec<u8>>> {
        let doing = format!("read the captured bytes of the archived letter {id}");
        let ask = self.db.ask_bulk();
        Ok(bytes(&ask.rows(&doing, &sql::ARCHIVED_BYTES, &[&id])?))
    }
}

/// Returns the captured bytes of a letter.
pub(crate) fn captured_bytes(session: &mut Session, id: JobId) -> Result<Option<Vec<u8>>> {
    let rows = session.query(&doing(id), &sql::CAPTURED_BYTES, &[&id.get()])?;
    Ok(bytes(&rows))
}

fn doing(id: JobId) -> String {
    format!("read the captured bytes of letter {id}")
}

/// Returns the bytes that a statement reads. A letter may have none.
fn bytes(rows: &[Row]) -> Option<Vec<u8>> {
    rows.first().and_then(|row| row.get("bytes"))
}
