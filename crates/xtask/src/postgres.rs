//! The binaries of a PostgreSQL server: found, or installed where that is ours to do.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::debian::{install, is_ours};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// Names one folder of binaries, to be used instead of looking for one.
const OVERRIDE: &str = "REDRIVE_POSTGRES_BIN";
/// The programs that a cluster takes. A client package has none of them.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];
/// Debian's package of them.
const PACKAGE: &str = "postgresql";
/// Where Debian and its children keep one folder per major version.
const PACKAGED: &str = "/usr/lib/postgresql";
/// How long a program may take to tell about itself.
const ANSWER: Duration = Duration::from_secs(10);

/// A folder with the server's programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    version: String,
}

impl Binaries {
    /// Finds the server's programs. Installs Debian's package when there are none, we are root
    /// and there is `apt-get`; otherwise the error says what to do.
    pub(crate) fn find(interrupt: &Interrupt) -> Result<Binaries> {
        let search = Search::of_this_machine(interrupt)?;
        let folder = match search.folder()? {
            Some(folder) => folder,
            None if is_ours() => {
                let again = || Search::of_this_machine(interrupt)?.folder();
                let wanted = || Ok(again()?.map_or_else(|| vec![PACKAGE], |_| vec![]));
                install(wanted, WHAT_TO_DO, interrupt)?;
                // The package may have brought `pg_config` along: look again everywhere.
                again()?.ok_or_else(|| Error::new(format!("{MISSING}{WHAT_TO_DO}")))?
            }
            None => return Err(Error::new(format!("{MISSING}{WHAT_TO_DO}"))),
        };
        let mut ask = Command::new(folder.join("postgres"));
        let answer = interrupt
            .output(ask.arg("--version"), ANSWER)?
            .filter(|output| output.status.success())
            .ok_or_else(|| {
                Error::new(format!(
                    "`{}/postgres --version` fails: the installation is broken.\n\
                     Repair it, or name another folder: {OVERRIDE}=/path/to/bin",
                    folder.display()
                ))
            })?;
        let version = version(&String::from_utf8_lossy(&answer.stdout));
        Ok(Binaries { folder, version })
    }

    /// One of the programs, ready for arguments.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(name));
        // What the caller's shell says about another server is not about this one.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        command
    }

    /// Where the programs are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where one of the programs is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The version as people say it: `15.13`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}

const MISSING: &str = "no PostgreSQL server found: looked for `initdb`, `pg_ctl` and `postgres` in \
    PATH, in the folder\nthat `pg_config --bindir` names, and in /usr/lib/postgresql/*/bin.\n";
const WHAT_TO_DO: &str = "Install the server (a client alone is not enough), then run this again:
    Debian, Ubuntu   sudo apt-get install postgresql
    Fedora, RHEL     sudo dnf install postgresql-server
    Alpine           sudo apk add postgresql
    macOS            brew install postgresql
or say where its programs are:
    REDRIVE_POSTGRES_BIN=/path/to/bin cargo xtask ...
or, for the demo, name a server that runs already:
    DATABASE_URL=postgres://user@host/database cargo xtask demo";

/// Where to look, in this order.
#[derive(Debug)]
struct Search {
    /// The value of `REDRIVE_POSTGRES_BIN`: nothing else counts when it is there.
    only: Option<PathBuf>,
    /// The value of `PATH`.
    path: OsString,
    /// What `pg_config --bindir` answers.
    configured: Option<PathBuf>,
    /// The folder with a folder per major version.
    packaged: PathBuf,
}

impl Search {
    fn of_this_machine(interrupt: &Interrupt) -> Result<Search> {
        let mut search = Search {
            only: env::var_os(OVERRIDE)
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            path: env::var_os("PATH").unwrap_or_default(),
            configured: None,
            packaged: PathBuf::from(PACKAGED),
        };
        if search.on_path(&["pg_config"]).is_some() {
            // Debian's `pg_config` is there with the client and fails without the server.
            search.configured = interrupt
                .output(Command::new("pg_config").arg("--bindir"), ANSWER)?
                .filter(|output| output.status.success())
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
        }
        Ok(search)
    }

    fn folder(&self) -> Result<Option<PathBuf>> {
        if let Some(only) = &self.only {
            return match PROGRAMS.iter().find(|name| !only.join(name).is_file()) {
                None => Ok(Some(only.clone())),
                Some(missing) => Err(Error::new(format!(
                    "there is no `{missing}` in {} (named by {OVERRIDE}).\n\
                     Name the folder that holds {}, or unset {OVERRIDE} to have it looked for.",
                    only.display(),
                    PROGRAMS.map(|name| format!("`{name}`")).join(", "),
                ))),
            };
        }
        Ok(self
            .on_path(&PROGRAMS)
            .or_else(|| {
                self.configured
                    .clone()
                    .filter(|folder| holds(folder, &PROGRAMS))
            })
            .or_else(|| self.newest_package()))
    }

    fn on_path(&self, programs: &[&str]) -> Option<PathBuf> {
        env::split_paths(&self.path).find(|folder| holds(folder, programs))
    }

    fn newest_package(&self) -> Option<PathBuf> {
        let versions = self.packaged.read_dir().ok()?.flatten();
        let mut found: Vec<(u32, PathBuf)> = versions
            .filter_map(|entry| {
                let major = entry.file_name().to_str()?.parse().ok()?;
                Some((major, entry.path().join("bin")))
            })
            .filter(|(_, folder)| holds(folder, &PROGRAMS))
            .collect();
        found.sort();
        found.pop().map(|(_, folder)| folder)
    }
}

fn holds(folder: &Path, programs: &[&str]) -> bool {
    programs.iter().all(|name| folder.join(name).is_file())
}

/// `15.13` out of `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn version(answer: &str) -> String {
    let number = answer
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_numeric()));
    number.unwrap_or("of unknown version").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install_into(folder: &Path, programs: &[&str]) {
        std::fs::create_dir_all(folder).expect("a folder");
        for name in programs {
            std::fs::write(folder.join(name), "").expect("a file");
        }
    }

    #[test]
    fn the_path_goes_first_then_pg_config_then_the_newest_package() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        let mut search = Search {
            only: None,
            path: env::join_paths([at("client"), at("here")]).expect("a PATH"),
            configured: Some(at("configured")),
            packaged: at("packaged"),
        };
        assert_eq!(search.folder().expect("looked"), None, "nothing anywhere");

        install_into(&at("client"), &["pg_ctl", "psql"]);
        install_into(&at("packaged/9/bin"), &PROGRAMS);
        install_into(&at("packaged/18/bin"), &PROGRAMS);
        install_into(&at("packaged/19/bin"), &["psql"]);
        install_into(&at("packaged/scripts"), &PROGRAMS);
        assert_eq!(
            search.folder().expect("looked"),
            Some(at("packaged/18/bin"))
        );

        install_into(&at("configured"), &PROGRAMS);
        assert_eq!(search.folder().expect("looked"), Some(at("configured")));

        install_into(&at("here"), &PROGRAMS);
        assert_eq!(search.folder().expect("looked"), Some(at("here")));

        search.only = Some(at("client"));
        let error = search.folder().expect_err("no server there").to_string();
        assert!(
            error.contains("no `initdb`") && error.contains(OVERRIDE),
            "{error}"
        );
    }

    #[test]
    fn a_version_is_what_people_say() {
        assert_eq!(
            version("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n"),
            "15.13"
        );
        assert_eq!(version("postgres (PostgreSQL) 19devel"), "19devel");
        assert_eq!(version(""), "of unknown version");
    }
}
