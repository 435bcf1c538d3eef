//! Programs from crates.io, installed once into `target/tools`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::cargo::cargo;
use crate::interrupt::Interrupt;

/// A program with its version, which is pinned: a newer one may report more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    /// The arguments that make it print its version last.
    pub(crate) ask: &'static [&'static str],
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Returns the program in `PATH` if it has the version, or that in `target/tools`, which is
    /// installed first if necessary.
    pub(crate) fn find(self, root: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
        let tools = root.join("target/tools");
        let installed = tools.join("bin").join(self.program);
        let has_version = |program: &Path| {
            let mut ask = Command::new(program);
            let version = interrupt.stdout(ask.args(self.ask), Duration::from_secs(10));
            version.is_ok_and(|version| version.trim_end().ends_with(self.version))
        };
        let in_path = PathBuf::from(self.program);
        if has_version(&in_path) {
            return Ok(in_path);
        }
        if !has_version(&installed) {
            let package = self.package;
            println!("    installing {package} once; this takes about three minutes on two cores");
            let mut install = cargo(["install", "--locked", package, "--version", self.version]);
            install
                .arg("--root")
                .arg(&tools)
                .env_remove("CARGO_TARGET_DIR")
                .current_dir(root);
            interrupt.succeed(&mut install)?;
        }
        Ok(installed)
    }
}
