//! Dependencies: their bans, licenses, sources and known advisories.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Runner;
use crate::cargo::cargo;

/// Pinned: a newer one may reject more, or need a newer compiler. `PyPI` has no recent wheel.
const VERSION: &str = "0.20.2";
/// How long the program may take to tell its version.
const ASK: Duration = Duration::from_secs(10);
/// How long the download of the advisory database may take.
const FETCH: Duration = Duration::from_mins(1);

/// Checks bans, licenses and sources. Also checks advisories if their database can be fetched;
/// otherwise the remark says that it did not.
pub(super) fn check(runner: &Runner<'_>) -> Result<String> {
    let tools = runner.root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    let version = runner
        .interrupt
        .stdout(Command::new(&program).arg("--version"), ASK);
    if !version.is_ok_and(|version| version.trim_end().ends_with(VERSION)) {
        println!("    installing cargo-deny {VERSION}, about four minutes on two cores");
        let mut install = cargo(["install", "--locked", "--force", "cargo-deny", "--version"]);
        // A temporary folder of cargo, instead of half a gigabyte in `target`.
        install.arg(VERSION).env_remove("CARGO_TARGET_DIR");
        runner.succeed(install.arg("--root").arg(&tools))?;
    }
    let deny = |arguments: &[&str]| {
        let mut deny = Command::new(&program);
        deny.args(arguments).current_dir(&runner.root);
        deny
    };
    runner.succeed(&mut deny(&["check", "bans", "licenses", "sources"]))?;

    if let Err(error) = runner.interrupt.stdout(&mut deny(&["fetch", "db"]), FETCH) {
        runner.interrupt.check()?;
        let error = error.to_string();
        let cause = error.lines().last().unwrap_or_default().trim().to_owned();
        let remark = format!("advisories NOT checked, their database is unreachable: {cause}");
        println!("    {remark}");
        return Ok(remark);
    }
    runner.succeed(&mut deny(&["check", "--disable-fetch", "advisories"]))?;
    Ok(String::new())
}
