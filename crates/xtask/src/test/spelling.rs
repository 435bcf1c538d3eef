//! Spelling of code and documents, with `typos` and the words in `typos.toml`.

use std::process::Command;

use anyhow::Result;

use super::Runner;
use crate::tools::Tool;

const TYPOS: Tool = Tool {
    name: "typos",
    version: "1.52.0",
};

/// Installs `typos` if it is missing.
pub(super) fn install(runner: &Runner<'_>) -> Result<()> {
    TYPOS.find(&runner.root, runner.interrupt).map(drop)
}

/// Runs `typos` from `PATH`, or from `target/tools`, where it is installed once.
pub(super) fn check(runner: &Runner<'_>) -> Result<()> {
    let typos = TYPOS.find(&runner.root, runner.interrupt)?;
    runner.succeed(&mut Command::new(typos))
}
