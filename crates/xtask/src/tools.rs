//! The check of spelling, a program that `PyPI` has as a wheel, installed once into `target/tools`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::interrupt::Interrupt;
use crate::programs::TRIES;

/// Its version, which is pinned: a newer one may report more. Its words are in `typos.toml`.
const VERSION: &str = "1.52.0";

/// Returns the program in `PATH` if it has the version, or that in `target/tools`, which is installed first
/// if necessary.
pub(crate) fn typos(root: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
    let has_version = |program: &Path| {
        let mut ask = Command::new(program);
        let version = interrupt.stdout(ask.arg("--version"), Duration::from_secs(10));
        version.is_ok_and(|version| version.trim_end().ends_with(VERSION))
    };
    let in_path = PathBuf::from("typos");
    if has_version(&in_path) {
        return Ok(in_path);
    }
    let tools = root.join("target/tools");
    let installed = tools.join("bin/typos");
    let package = format!("typos=={VERSION}");
    for _ in 0..TRIES {
        if has_version(&installed) {
            return Ok(installed);
        }
        let mut install = Command::new("python3");
        install
            .args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
            .arg(&tools)
            .arg(&package);
        println!("    installing {package} from PyPI");
        interrupt.run(&mut install)?;
    }
    if has_version(&installed) {
        return Ok(installed);
    }
    bail!("could not install {package} from PyPI with `python3 -m pip` in {TRIES} tries")
}
