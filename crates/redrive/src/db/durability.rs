//! Durability: warns if the server may lose committed data.
//!
//! redrive's guarantees depend on the server's settings, and only warns: test servers rightly run
//! with `fsync` off.

use std::fmt;

use crate::db::admin::Admin;
use crate::db::row::{FromRow as _, row};
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
pub(crate) fn lapses(session: &mut Session) -> Result<Vec<DurabilityWarning>> {
    let row = session.query_one("read the durability settings", &sql::DURABILITY, &[])?;
    ServerSettings::from_row(&row).map(judge)
}

row! {
    /// The server's settings. `None` if the server does not have one.
    struct ServerSettings {
        fsync: Option<String>,
        full_page_writes: Option<String>,
        synchronous_commit: Option<String>,
        unlogged: Vec<String>,
    }
}

/// Evaluates the settings. Pure.
///
/// Every value of `synchronous_commit` but `off` waits for the server's own disk. Standbys are the
/// operator's choice.
fn judge(said: ServerSettings) -> Vec<DurabilityWarning> {
    let settings = [
        (said.fsync, DurabilityWarning::Fsync),
        (said.full_page_writes, DurabilityWarning::FullPageWrites),
        (
            said.synchronous_commit,
            DurabilityWarning::SynchronousCommit,
        ),
    ];
    let off = settings
        .into_iter()
        .filter(|(setting, _)| setting.as_deref() == Some("off"));
    let mut lapses: Vec<DurabilityWarning> = off.map(|(_, lapse)| lapse).collect();
    if !said.unlogged.is_empty() {
        lapses.push(DurabilityWarning::Unlogged(said.unlogged));
    }
    lapses
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The warnings about these values of `fsync`, `full_page_writes` and `synchronous_commit`, and these relations.
    fn warnings(settings: &str, unlogged: &[&str]) -> Vec<String> {
        let mut said = settings.split(' ').map(str::to_owned);
        let settings = ServerSettings {
            fsync: said.next(),
            full_page_writes: said.next(),
            synchronous_commit: said.next(),
            unlogged: unlogged.iter().map(|name| (*name).to_owned()).collect(),
        };
        judge(settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_warning_names_in_one_line_each_setting_that_endangers_data_and_the_risk() {
        let fsync = ["`fsync`", "`off`", "corrupt"];
        let pages = ["`full_page_writes`", "`off`", "corrupt"];
        let commit = ["`synchronous_commit`", "`off`", "lost"];
        let unlogged = ["`leases`", "`UNLOGGED`", "empty"];
        let names = &["a\nb", "leases"][..];
        for (settings, names, expected) in [
            ("on on on", &[][..], &[][..]),
            ("on on local", &[], &[]),
            ("on on remote_write", &[], &[]),
            ("on on remote_apply", &[], &[]),
            // A compatible server without two of them.
            ("on", &[], &[]),
            ("off on on", &[], &[fsync]),
            ("on off on", &[], &[pages]),
            ("on on off", &[], &[commit]),
            ("on on on", names, &[unlogged]),
            ("off off off", names, &[fsync, pages, commit, unlogged]),
        ] {
            let found = warnings(settings, names);
            assert_eq!(found.len(), expected.len(), "{settings}: {found:?}");
            for (warning, words) in found.iter().zip(expected) {
                let is_told = words.iter().all(|word| warning.contains(word));
                assert!(is_told && !warning.contains('\n'), "{words:?}: {warning}");
            }
        }
    }
}
