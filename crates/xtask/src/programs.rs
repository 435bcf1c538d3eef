//! Programs that the commands need: found, or installed from Debian's packages.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use nix::unistd::geteuid;

use crate::interrupt::Interrupt;
use crate::scratch;

/// Debian keeps servers here, which is not in everybody's `PATH`.
const SERVERS: &str = "/usr/sbin";
/// How often an installation is tried: a registry may answer the next time.
pub(crate) const TRIES: u32 = 3;

/// A program that comes with a package of Debian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its usual name, then others.
    names: &'static [&'static str],
    /// The environment variable that overrides the search.
    pub(crate) variable: &'static str,
    package: &'static str,
    /// How to install it elsewhere.
    elsewhere: &'static str,
}

/// Checks and tests alert rules and metric pages.
pub(crate) const PROMTOOL: Program = Program {
    names: &["promtool"],
    variable: "PROMTOOL",
    package: "prometheus",
    elsewhere: "a release from prometheus.io holds `prometheus` and `promtool`",
};

pub(crate) const PROMETHEUS: Program = Program {
    names: &["prometheus"],
    variable: "PROMETHEUS",
    ..PROMTOOL
};

/// The pooler that tests put in front of their server.
pub(crate) const PGBOUNCER: Program = Program {
    names: &["pgbouncer"],
    variable: "PGBOUNCER",
    package: "pgbouncer",
    elsewhere: "dnf and brew have a package `pgbouncer`",
};

/// Gives a process another clock. Its package has the library that chaos loads into a worker.
pub(crate) const FAKETIME: Program = Program {
    names: &["faketime"],
    variable: "FAKETIME_PROGRAM",
    package: "faketime",
    elsewhere: "dnf and brew have a package `libfaketime`",
};

/// Runs the checks of the dashboards.
pub(crate) const NODE: Program = Program {
    names: &["node"],
    variable: "NODE",
    package: "nodejs",
    elsewhere: "nodejs.org; version 18 or newer",
};

pub(crate) const NPM: Program = Program {
    names: &["npm"],
    variable: "NPM",
    package: "npm",
    ..NODE
};

/// Draws the dashboards.
pub(crate) const CHROMIUM: Program = Program {
    names: &["chromium", "chromium-browser", "google-chrome"],
    variable: "CHROMIUM",
    package: "chromium",
    elsewhere: "any Chromium or Chrome",
};

impl Program {
    /// Finds the program where its variable says, or in `PATH`. Installs its package if it is
    /// missing, the user is root and `apt-get` exists.
    ///
    /// # Errors
    ///
    /// The message says how to install the program by hand.
    pub(crate) fn find(self, interrupt: &Interrupt) -> Result<PathBuf> {
        if let Some(found) = self.look()? {
            return Ok(found);
        }
        if can_install() {
            let is_missing = || Ok(self.look()?.is_none());
            let is_new = install(self.package, is_missing, interrupt)?;
            // Installing a server also starts it, where systemd runs.
            if is_new && Path::new("/run/systemd/system").is_dir() {
                let stop = ["disable", "--now", self.package];
                interrupt.run(Command::new("systemctl").args(stop))?;
            }
        }
        self.look()?.ok_or_else(|| {
            let (name, variable) = (self.names[0], self.variable);
            anyhow!(
                "`{name}` is neither in PATH nor named by {variable}.\n\
                 Install it, then run this again:\n    \
                 Debian, Ubuntu   sudo apt-get install --no-install-recommends {}\n    \
                 elsewhere        {}\n\
                 or name it: {variable}=/path/to/{name} cargo xtask ...",
                self.package,
                self.elsewhere
            )
        })
    }

    /// Looks where the variable says or, without it, in `PATH`.
    fn look(self) -> Result<Option<PathBuf>> {
        let Some(named) = env::var_os(self.variable).filter(|value| !value.is_empty()) else {
            return Ok(self.names.iter().find_map(|name| found(name)));
        };
        let named = PathBuf::from(named);
        ensure!(
            named.is_file(),
            "{}={} is not a file; name the program, or unset the variable to search PATH",
            self.variable,
            named.display()
        );
        Ok(Some(named))
    }
}

/// Returns the variables that tell the tests where their programs are, and where their servers keep data.
pub(crate) fn for_tests(interrupt: &Interrupt) -> Result<[(&'static str, PathBuf); 3]> {
    Ok([
        ("TMPDIR", scratch::folder()),
        (PROMTOOL.variable, PROMTOOL.find(interrupt)?),
        (PGBOUNCER.variable, PGBOUNCER.find(interrupt)?),
    ])
}

/// Looks for a program in `PATH`.
fn found(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from(SERVERS)])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether this process may install packages: as root, with `apt-get`.
pub(crate) fn can_install() -> bool {
    geteuid().is_root() && found("apt-get").is_some()
}

/// Installs a package if it is still missing then, and returns whether it was.
pub(crate) fn install(
    package: &str,
    is_missing: impl FnOnce() -> Result<bool>,
    interrupt: &Interrupt,
) -> Result<bool> {
    // Two xtasks at once would collide on apt's package lists. The second waits here, and then
    // finds what the first installed.
    let lock = env::temp_dir().join("redrive-apt.lock");
    let held = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    held.lock()
        .with_context(|| format!("cannot lock {}", lock.display()))?;
    if !is_missing()? {
        return Ok(false);
    }
    println!("    installing the Debian package {package}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        interrupt.run(&mut command)
    };
    // A fresh container has no package lists; elsewhere they are usually recent enough.
    for number in 0..TRIES {
        if number > 0 {
            apt(&["update"])?;
        }
        if apt(&["install", "-y", "--no-install-recommends", package])?.success() {
            return Ok(true);
        }
    }
    bail!(
        "could not install {package} with `apt-get install` in {TRIES} tries; see its output above"
    )
}
