//! The programs that the gates need: found, or installed where that is ours to do.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::account::is_root;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// What runs the gates and fetches their packages, with the package of Debian that brings each.
const PROGRAMS: [(&str, &str); 3] = [("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium")];
/// The browser by other names.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Names a browser.
const BROWSER: &str = "CHROMIUM";

const WHAT_TO_DO: &str = "The checks of the dashboards need node 18 or newer, npm and chromium:
    Debian, Ubuntu   sudo apt-get install --no-install-recommends nodejs npm chromium
    elsewhere        nodejs.org has the first two; CHROMIUM=/path/to/it names the browser";

/// Makes sure that all of them are there.
///
/// # Errors
///
/// It says what to do when one is missing and it is not ours to install it.
pub(crate) fn ensure(interrupt: &Interrupt) -> Result<()> {
    if missing().is_empty() {
        return Ok(());
    }
    if is_root() && is_there("apt-get") {
        // Two of us at once would meet at the lock of the package lists, which does not wait.
        let lock = env::temp_dir().join("redrive-apt.lock");
        let held = File::create(&lock).during(|| format!("cannot write {}", lock.display()))?;
        held.lock()
            .during(|| format!("cannot lock {}", lock.display()))?;
        install(interrupt, &missing())?;
    }
    match missing().as_slice() {
        [] => Ok(()),
        packages => Err(Error::new(format!(
            "missing: {}\n{WHAT_TO_DO}",
            packages.join(", ")
        ))),
    }
}

/// The packages of what is not there.
fn missing() -> Vec<&'static str> {
    PROGRAMS
        .into_iter()
        .filter(|(program, _)| match *program {
            "chromium" => !has_browser(),
            other => !is_there(other),
        })
        .map(|(_, package)| package)
        .collect()
}

fn has_browser() -> bool {
    let named = env::var_os(BROWSER).is_some_and(|name| PathBuf::from(name).is_file());
    named || BROWSERS.into_iter().any(is_there)
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn install(interrupt: &Interrupt, packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
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
    let wanted = [&["install", "-y", "--no-install-recommends"], packages].concat();
    // A fresh container has no package lists; where there are some, they usually do. What is
    // still missing afterwards is told by name.
    if !apt(&wanted)?.success() && apt(&["update"])?.success() {
        apt(&wanted)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_in_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-of-ours"));
    }
}
