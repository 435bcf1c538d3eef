//! Node packages, installed into a copy of their folder, so that nothing is installed next to the
//! sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::interrupt::Interrupt;
use crate::programs::{NPM, TRIES};

/// The manifests of Node packages.
const MANIFESTS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs the packages of a folder, unless its lock file is installed already. Runs no scripts of
/// the packages.
pub(crate) fn install(folder: &Path, cache: &Path, interrupt: &Interrupt) -> Result<()> {
    let lock = folder.join("package-lock.json");
    let stamp = folder.join("node_modules/.installed");
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut npm = Command::new(NPM.find(interrupt)?);
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    npm.args(["--loglevel=error"]).current_dir(folder);
    npm.env("npm_config_cache", cache);
    let mut installed = interrupt.succeed(&mut npm);
    for _ in 1..TRIES {
        if installed.is_err() {
            installed = interrupt.succeed(&mut npm);
        }
    }
    installed.with_context(|| format!("could not install the packages of {}", lock.display()))?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Copies the files of a folder, without subfolders. Skips unchanged manifests, so that installed
/// packages stay.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let is_manifest = MANIFESTS.iter().any(|name| entry.file_name() == *name);
        let is_same = is_manifest && fs::read(&copy).ok() == fs::read(&path).ok();
        if path.is_file() && !is_same {
            fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
