//! Spelling of code and documents, with `typos` and the words in `typos.toml`.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Runner;
use crate::cargo::cargo;

/// Pinned, because a newer version may report more misspellings.
const VERSION: &str = "1.52.0";

/// Runs `typos` from `PATH`, or from `target/tools`, where it is installed once.
pub(super) fn check(runner: &Runner<'_>) -> Result<()> {
    let tools = runner.root.join("target/tools");
    let installed = tools.join("bin/typos");
    let has_version = |program: &OsStr| {
        let mut ask = Command::new(program);
        let version = runner
            .interrupt
            .stdout(ask.arg("--version"), Duration::from_secs(10));
        version.is_ok_and(|version| version.trim_end().ends_with(VERSION))
    };
    let typos = if has_version(OsStr::new("typos")) {
        OsStr::new("typos")
    } else {
        if !has_version(installed.as_os_str()) {
            println!("    installing typos once; this takes about three minutes on two cores");
            let mut install = cargo(["install", "--locked", "typos-cli", "--version", VERSION]);
            install
                .arg("--root")
                .arg(&tools)
                .env_remove("CARGO_TARGET_DIR");
            runner.succeed(&mut install)?;
        }
        installed.as_os_str()
    };
    runner.succeed(&mut Command::new(typos))
}
