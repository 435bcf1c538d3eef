//! Obstacles: settings under which statements of redrive succeed and are wrong, because rows are
//! invisible to the role or triggers do not fire.

use crate::db::database::Database;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};

impl Database {
    /// Checks that this role sees all rows of the schema and that its triggers fire.
    ///
    /// A [`Worker`](crate::Worker) checks this when it starts.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// db.check_session()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If row level security hides rows, a trigger is disabled, or `session_replication_role` is
    /// `replica`. The message has the statement that helps.
    pub fn check_session(&self) -> Result<()> {
        self.call(DOING, refuse_obstacles)
    }
}

const DOING: &str = "look for obstacles";

/// Returns the first obstacle as an error.
pub(crate) fn refuse_obstacles(session: &mut Session) -> Result<()> {
    match session.query(DOING, &sql::OBSTACLES, &[])?.first() {
        None => Ok(()),
        Some(row) => {
            let (obstacle, remedy): (&str, &str) = (row.get("obstacle"), row.get("remedy"));
            Err(Error::refused(format!("{obstacle}; run: {remedy}")))
        }
    }
}
