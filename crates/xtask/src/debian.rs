//! Debian's packages: installed where that is ours to do.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::account::is_root;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// Whether it is ours to install packages: we are root, and there is `apt-get`.
pub(crate) fn is_ours() -> bool {
    is_root() && on_path("apt-get").is_some()
}

/// Where a program is, by the `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    found_in(&env::var_os("PATH").unwrap_or_default(), program)
}

/// Where a program is, by a path of this form.
pub(crate) fn found_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Installs the packages that are missing, and tells which those were. Whether that brought what
/// was wanted is for the caller to see.
///
/// # Errors
///
/// It says what to do when `apt-get` fails.
pub(crate) fn install(
    missing: impl FnOnce() -> Result<Vec<&'static str>>,
    what_to_do: &str,
    interrupt: &Interrupt,
) -> Result<Vec<&'static str>> {
    // Two of us at once would meet at the lock of the package lists, which does not wait. Who
    // waited finds what the other one has installed.
    let lock = env::temp_dir().join("redrive-apt.lock");
    let held = File::create(&lock).during(|| format!("cannot write {}", lock.display()))?;
    held.lock()
        .during(|| format!("cannot lock {}", lock.display()))?;
    let packages = missing()?;
    if packages.is_empty() {
        return Ok(packages);
    }
    println!("    Installing Debian's packages: {}", packages.join(", "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        interrupt.run(&mut command)
    };
    let wanted = [&["install", "-y", "--no-install-recommends"], &*packages].concat();
    // A fresh container has no package lists; where there are some, they usually do.
    if apt(&wanted)?.success() || (apt(&["update"])?.success() && apt(&wanted)?.success()) {
        return Ok(packages);
    }
    Err(Error::new(format!(
        "`apt-get install {}` failed; its own words are above.\n{what_to_do}",
        packages.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::on_path;

    #[test]
    fn a_program_is_looked_for_in_the_path() {
        assert!(on_path("sh").is_some());
        assert!(on_path("no-such-program-of-ours").is_none());
    }
}
