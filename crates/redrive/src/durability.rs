//! Durability: whether the server keeps what it has committed.
//!
//! All that redrive promises stands on that, and nothing of it is redrive's to set: servers for
//! tests run with `fsync` off, and should. So it looks and says what it sees, and refuses nothing.

use std::fmt;

use crate::database::Database;
use crate::error::Result;
use crate::floor::Row;
use crate::session::Session;
use crate::sql;

/// A reason why the server may lose what it has committed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// for lapse in db.lapses()? {
///     eprintln!("{lapse}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lapse {
    /// `fsync` is off.
    Fsync,
    /// `full_page_writes` is off. Storage that never writes half a page needs none.
    FullPageWrites,
    /// `synchronous_commit` is off, for the sessions of this program.
    SynchronousCommit,
    /// Tables or sequences of the schema, by these names, are `UNLOGGED`.
    Unlogged(Vec<String>),
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lapse::Fsync => f.write_str(
                "`fsync` is `off`: when the machine crashes, jobs and letters may be lost and the database corrupt",
            ),
            Lapse::FullPageWrites => f.write_str(
                "`full_page_writes` is `off`: when the machine crashes, the database may be corrupt, unless its storage never writes half a page",
            ),
            Lapse::SynchronousCommit => f.write_str(
                "`synchronous_commit` is `off` here: when the server crashes, the last jobs that were enqueued may be lost, and the last that were done run again",
            ),
            Lapse::Unlogged(names) => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| format!("`{}`", name.escape_debug()))
                    .collect();
                let names = names.join(", ");
                write!(
                    f,
                    "`UNLOGGED` in the schema `redrive`: {names}: when the server crashes, they are empty"
                )
            }
        }
    }
}

impl Database {
    /// Looks whether the server keeps what it has committed; answers why it may not, if so.
    ///
    /// What [`Worker`](crate::Worker)s say in the log when they start is the same: it is a warning,
    /// and never keeps one from starting.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn lapses(&self) -> Result<Vec<Lapse>> {
        self.call("look at the durability of the server", lapses)
    }
}

/// Asks the server, and judges what it says.
pub(crate) fn lapses(session: &mut Session) -> Result<Vec<Lapse>> {
    let row = session.query_one(
        "look at the durability of the server",
        &sql::DURABILITY,
        &[],
    )?;
    Ok(judge(Said::of(&row)))
}

/// What a server says of itself; a setting that it does not have is `None`.
#[derive(Clone, Debug, Default)]
struct Said {
    fsync: Option<String>,
    full_page_writes: Option<String>,
    synchronous_commit: Option<String>,
    unlogged: Vec<String>,
}

impl Said {
    fn of(row: &Row) -> Said {
        Said {
            fsync: row.get("fsync"),
            full_page_writes: row.get("full_page_writes"),
            synchronous_commit: row.get("synchronous_commit"),
            unlogged: row.get("unlogged"),
        }
    }
}

/// Decides what of it endangers what was committed. Pure.
///
/// Of `synchronous_commit` every word but `off` waits for the disk of the server itself; which
/// standbys have it as well is for whoever wants to survive the loss of that disk.
fn judge(said: Said) -> Vec<Lapse> {
    let is_off = |setting: &Option<String>| setting.as_deref() == Some("off");
    let mut lapses = Vec::new();
    if is_off(&said.fsync) {
        lapses.push(Lapse::Fsync);
    }
    if is_off(&said.full_page_writes) {
        lapses.push(Lapse::FullPageWrites);
    }
    if is_off(&said.synchronous_commit) {
        lapses.push(Lapse::SynchronousCommit);
    }
    if !said.unlogged.is_empty() {
        lapses.push(Lapse::Unlogged(said.unlogged));
    }
    lapses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(fsync: &str, pages: &str, commit: &str, unlogged: &[&str]) -> Said {
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        Said {
            fsync: some(fsync),
            full_page_writes: some(pages),
            synchronous_commit: some(commit),
            unlogged: unlogged.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn only_what_endangers_what_was_committed_is_a_lapse() {
        let jobs = || Lapse::Unlogged(vec!["jobs_0".to_owned()]);
        for (said, expected) in [
            (said("on", "on", "on", &[]), vec![]),
            (said("on", "on", "local", &[]), vec![]),
            (said("on", "on", "remote_write", &[]), vec![]),
            (said("on", "on", "remote_apply", &[]), vec![]),
            // A server of another make, that has no such settings.
            (said("", "", "", &[]), vec![]),
            (said("off", "on", "on", &[]), vec![Lapse::Fsync]),
            (said("on", "off", "on", &[]), vec![Lapse::FullPageWrites]),
            (said("on", "on", "off", &[]), vec![Lapse::SynchronousCommit]),
            (said("on", "on", "on", &["jobs_0"]), vec![jobs()]),
            (
                said("off", "off", "off", &["jobs_0"]),
                vec![
                    Lapse::Fsync,
                    Lapse::FullPageWrites,
                    Lapse::SynchronousCommit,
                    jobs(),
                ],
            ),
        ] {
            assert_eq!(judge(said.clone()), expected, "{said:?}");
        }
    }

    #[test]
    fn a_lapse_is_told_in_one_line_with_its_name_its_value_and_what_is_at_stake() {
        let unlogged = Lapse::Unlogged(vec!["a\nb".to_owned(), "leases".to_owned()]);
        for (lapse, words) in [
            (Lapse::Fsync, ["`fsync`", "`off`", "corrupt"]),
            (
                Lapse::FullPageWrites,
                ["`full_page_writes`", "`off`", "corrupt"],
            ),
            (
                Lapse::SynchronousCommit,
                ["`synchronous_commit`", "`off`", "lost"],
            ),
            (unlogged, ["`leases`", "`UNLOGGED`", "empty"]),
        ] {
            let told = lapse.to_string();
            assert!(!told.contains('\n'), "{told}");
            for word in words {
                assert!(told.contains(word), "{word}: {told}");
            }
        }
    }
}
