//! Durability: warns if the server may lose committed data.
//!
//! redrive's guarantees depend on the server's settings, and only warns: test servers rightly run
//! with `fsync` off.

use crate::db::admin::Admin;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::sync::Row;

impl Admin<'_> {
    /// Returns what lets the server lose committed data, each as one line: settings that are off, and `UNLOGGED` tables.
    ///
    /// A [`Worker`](crate::Worker) logs the same warnings when it starts.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// for warning in db.admin().durability_warnings()? {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn durability_warnings(&self) -> Result<Vec<String>> {
        self.db.call(DOING, durability_warnings)
    }
}

/// The operation in errors.
pub(crate) const DOING: &str = "read the durability settings";

/// Reads the warnings.
pub(crate) fn durability_warnings(session: &mut Session) -> Result<Vec<String>> {
    let rows = session.query(DOING, &sql::DURABILITY, &[])?;
    // The name of a table may contain newlines.
    let line = |row: &Row| row.get::<_, &str>(0).escape_debug().to_string();
    Ok(rows.iter().map(line).collect())
}
