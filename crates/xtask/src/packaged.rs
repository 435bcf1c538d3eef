//! Programs that come with a package of Debian: found, or installed where that is ours to do.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{found_in, install, is_ours};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// Where Debian keeps servers; it is not in the `PATH` of everybody.
const SERVERS: &str = "/usr/sbin";

/// A program, and how it is had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packaged {
    pub(crate) program: &'static str,
    /// The environment variable that names it.
    pub(crate) variable: &'static str,
    /// Debian's package, and the name of the service that it starts.
    pub(crate) package: &'static str,
    /// What a person is told to do who has to do it.
    pub(crate) what_to_do: &'static str,
}

impl Packaged {
    /// Finds it: where its variable says, or in `PATH`. Installs the package when it is nowhere, we
    /// are root and there is `apt-get`.
    ///
    /// # Errors
    ///
    /// It says what to do when there is none and it is not ours to install it.
    pub(crate) fn find(self, interrupt: &Interrupt) -> Result<PathBuf> {
        let Packaged {
            program, variable, ..
        } = self;
        let named = env::var_os(variable).filter(|value| !value.is_empty());
        if let Some(found) = self.look(named, &path())? {
            return Ok(found);
        }
        let missing = || {
            Error::new(format!(
                "no `{program}` found: {variable} is not set, and it is not in PATH.\n{}",
                self.what_to_do
            ))
        };
        if !is_ours() {
            return Err(missing());
        }
        let wanted =
            || Ok(found_in(&path(), program).map_or_else(|| vec![self.package], |_| vec![]));
        let installed = install(wanted, self.what_to_do, interrupt)?;
        // In a container nothing was started. Where something was, the package did it, not the user,
        // and we want the programs only.
        if !installed.is_empty() && Path::new("/run/systemd/system").is_dir() {
            interrupt.run(Command::new("systemctl").args(["disable", "--now", self.package]))?;
        }
        found_in(&path(), program).ok_or_else(missing)
    }

    /// Where the program is: where it is said to be, or in `PATH`.
    fn look(self, named: Option<OsString>, path: &OsString) -> Result<Option<PathBuf>> {
        let Packaged {
            program, variable, ..
        } = self;
        let Some(named) = named.map(PathBuf::from) else {
            return Ok(found_in(path, program));
        };
        if named.is_file() {
            return Ok(Some(named));
        }
        Err(Error::new(format!(
            "there is no `{program}` at {} (named by {variable}).\n\
             Name the program itself, or unset {variable} to have it looked for.",
            named.display()
        )))
    }
}

fn path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(SERVERS);
    path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Packaged;

    const PROMTOOL: Packaged = Packaged {
        program: "promtool",
        variable: "PROMTOOL",
        package: "prometheus",
        what_to_do: "Install it.",
    };

    #[test]
    fn a_named_program_goes_before_the_path_and_must_be_there() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        let path = place.path().as_os_str().to_owned();
        let find = |named: Option<&str>| PROMTOOL.look(named.map(|name| at(name).into()), &path);
        assert_eq!(find(None).expect("looked"), None, "nothing anywhere");

        fs::write(at("promtool"), "").expect("a file");
        fs::write(at("other"), "").expect("a file");
        assert_eq!(find(None).expect("looked"), Some(at("promtool")));
        assert_eq!(find(Some("other")).expect("looked"), Some(at("other")));

        let error = find(Some("gone")).expect_err("not there").to_string();
        assert!(error.contains("named by PROMTOOL"), "{error}");
    }
}
