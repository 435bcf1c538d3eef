//! Durability: warns if the server may lose committed data.
//!
//! redrive's guarantees depend on the server's settings, and only warns: test servers rightly run
//! with `fsync` off.

use std::fmt;

use crate::db::admin::Admin;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// A setting that lets the server lose committed data.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// for lapse in db.admin().durability_warnings()? {
///     eprintln!("{lapse}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurabilityWarning {
    /// `fsync` is off.
    Fsync,
    /// `full_page_writes` is off. Storage without torn pages does not need it.
    FullPageWrites,
    /// `synchronous_commit` is off for the sessions of this program.
    SynchronousCommit,
    /// These tables or sequences of the schema are `UNLOGGED`.
    Unlogged(Vec<String>),
}

impl fmt::Display for DurabilityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurabilityWarning::Fsync => f.write_str(
                "`fsync` is `off`: if the machine crashes, jobs and letters may be lost and the database may be corrupted",
            ),
            DurabilityWarning::FullPageWrites => f.write_str(
                "`full_page_writes` is `off`: if the machine crashes, the database may be corrupted, unless its storage writes pages atomically",
            ),
            DurabilityWarning::SynchronousCommit => f.write_str(
                "`synchronous_commit` is `off` for this session: if the server crashes, the newest jobs may be lost, and jobs that just finished may run again",
            ),
            DurabilityWarning::Unlogged(names) => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| format!("`{}`", name.escape_debug()))
                    .collect();
                let names = names.join(", ");
                write!(
                    f,
                    "these relations in the schema `redrive` are `UNLOGGED`; a server crash leaves them empty: {names}"
                )
            }
        }
    }
}

impl Admin<'_> {
    /// Returns the settings that let the server lose committed data.
    ///
    /// A [`Worker`](crate::Worker) logs the same warnings when it starts.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn durability_warnings(&self) -> Result<Vec<DurabilityWarning>> {
        self.db.call("read the durability settings", lapses)
    }
}

/// Reads the settings and evaluates them.
///
/// Every value of `synchronous_commit` but `off` waits for the server's own disk. Standbys are the
/// operator's choice.
pub(crate) fn lapses(session: &mut Session) -> Result<Vec<DurabilityWarning>> {
    let row = session.query_one("read the durability settings", &sql::DURABILITY, &[])?;
    let settings = [
        ("fsync", DurabilityWarning::Fsync),
        ("full_page_writes", DurabilityWarning::FullPageWrites),
        ("synchronous_commit", DurabilityWarning::SynchronousCommit),
    ];
    // NULL: the server does not have the setting.
    let is_off = |name: &str| row.get::<_, Option<&str>>(name) == Some("off");
    let off = settings.into_iter().filter(|(name, _)| is_off(name));
    let mut lapses: Vec<DurabilityWarning> = off.map(|(_, lapse)| lapse).collect();
    let unlogged: Vec<String> = row.get("unlogged");
    if !unlogged.is_empty() {
        lapses.push(DurabilityWarning::Unlogged(unlogged));
    }
    Ok(lapses)
}
