//! Programs that `PyPI` has as wheels, installed once into `target/tools`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::interrupt::Interrupt;
use crate::programs::TRIES;

/// Finds mistakes in spelling. Its words are in `typos.toml`.
pub(crate) const TYPOS: Tool = Tool {
    name: "typos",
    version: "1.52.0",
};

/// A program with its version, which is pinned: a newer one may report more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// The name of the program and of its package.
    name: &'static str,
    version: &'static str,
}

impl Tool {
    /// Returns the program in `PATH` if it has the version, or that in `target/tools`, which is
    /// installed first if necessary.
    pub(crate) fn find(self, root: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
        let has_version = |program: &Path| {
            let mut ask = Command::new(program);
            let version = interrupt.stdout(ask.arg("--version"), Duration::from_secs(10));
            version.is_ok_and(|version| version.trim_end().ends_with(self.version))
        };
        let in_path = PathBuf::from(self.name);
        if has_version(&in_path) {
            return Ok(in_path);
        }
        let tools = root.join("target/tools");
        let installed = tools.join("bin").join(self.name);
        let package = format!("{}=={}", self.name, self.version);
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
}
