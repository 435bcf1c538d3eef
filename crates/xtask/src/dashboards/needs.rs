//! The programs that the gates need: found, or installed where that is ours to do.

use std::env;
use std::path::PathBuf;

use crate::debian::{install, is_ours, on_path};
use crate::error::{Error, Result};
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
    if is_ours() {
        install(|| Ok(missing()), WHAT_TO_DO, interrupt)?;
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
            other => on_path(other).is_none(),
        })
        .map(|(_, package)| package)
        .collect()
}

fn has_browser() -> bool {
    let named = env::var_os(BROWSER).is_some_and(|name| PathBuf::from(name).is_file());
    named || BROWSERS.into_iter().any(|name| on_path(name).is_some())
}
