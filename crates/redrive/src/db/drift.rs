//! Drift: compares the schema with the one that the migrations create.
//!
//! The ledger shows what was applied, not what someone changed afterwards: an index dropped by hand, or triggers that
//! a restore left disabled. So a transaction creates a second schema from the same files, and ends without it. The
//! same server writes both definitions, so they are equal on every version of PostgreSQL.

use postgres::error::SqlState;
use uuid::Uuid;

use crate::db::admin::Admin;
use crate::db::migrate::{self, is_newer};
use crate::db::row::read_all;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};

const DOING: &str = "compare the schema";

/// The settings that change how the server writes a definition. The transaction leaves nothing, so it may write.
const SETTINGS: &str = "SET LOCAL transaction_read_only = off; SET LOCAL IntervalStyle = postgres; \
                        SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'";

impl Admin<'_> {
    /// Returns the objects of the schema that are missing or differ from the migrations, by name, each as one line such
    /// as `trigger bury on dead_letters is disabled`.
    ///
    /// It compares tables, columns, constraints, indexes, views, sequences, triggers, functions and their owners. Additional objects, storage
    /// parameters and privileges do not count. A schema of a newer version is not compared.
    ///
    /// It creates the whole schema under another name in a transaction that it rolls back, so the role needs the
    /// privilege CREATE on the database.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// for drift in db.admin().schema_drift()? {
    ///     eprintln!("{drift}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the database does not answer, or the role may not create a schema.
    pub fn schema_drift(&self) -> Result<Vec<String>> {
        let deadline = self.db.bulk_timeout();
        self.db.call_within(DOING, deadline, |session| {
            if is_newer(session)? {
                return Ok(Vec::new());
            }
            session.begin(DOING, &format!("{}; {SETTINGS}", migrate::SETTINGS))?;
            let drifts = drifts(session);
            session.end_by("ROLLBACK", DOING, drifts)
        })
    }
}

/// Compares the schema with a new one.
fn drifts(session: &mut Session) -> Result<Vec<String>> {
    let other = format!("redrive_{}", Uuid::new_v4().simple());
    session
        .client()
        .batch_execute(&named(&migrate::whole(), &other))
        .map_err(|error| match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let doing = format!("{DOING}, which needs the privilege CREATE on the database");
                Error::from_postgres(doing, error)
            }
            _ => Error::from_postgres(DOING, error),
        })?;
    // Reading the definition of a view locks its tables until the end of the transaction, so this is last.
    read_all(&session.query(DOING, &sql::SCHEMA_DRIFT, &[&other])?)
}

/// Replaces the name of the schema in a script. Elsewhere it is part of other names, such as those of metrics.
fn named(script: &str, other: &str) -> String {
    let places = ["redrive.", "'redrive'", "SCHEMA redrive"];
    places.iter().fold(script.to_owned(), |script, place| {
        script.replace(place, &place.replace("redrive", other))
    })
}
