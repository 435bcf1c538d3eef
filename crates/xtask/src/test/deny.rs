//! Dependencies: their bans, licenses, sources and known advisories.

use std::time::Duration;

use anyhow::Result;

use super::Runner;
use crate::cargo::{cargo, has_subcommand};

/// How long the download of the advisory database may take.
const FETCH: Duration = Duration::from_mins(1);

/// Checks bans, licenses and sources. Also checks advisories if their database can be fetched;
/// otherwise the remark says that it did not.
pub(super) fn check(runner: &Runner<'_>) -> Result<String> {
    if !has_subcommand("deny", runner.interrupt)? {
        println!("    installing cargo-deny once; this takes about four minutes on two cores");
        runner.succeed(
            cargo(["install", "--locked", "cargo-deny"])
                // A temporary folder of cargo, instead of half a gigabyte in `target`.
                .env_remove("CARGO_TARGET_DIR"),
        )?;
    }
    runner.succeed(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;

    let mut fetch = cargo(["deny", "fetch", "db"]);
    if let Err(error) = runner
        .interrupt
        .stdout(fetch.current_dir(&runner.root), FETCH)
    {
        runner.interrupt.check()?;
        let error = error.to_string();
        let cause = error.lines().last().unwrap_or_default().trim().to_owned();
        let remark = format!("advisories NOT checked, their database is unreachable: {cause}");
        println!("    {remark}");
        return Ok(remark);
    }
    runner.succeed(&mut cargo([
        "deny",
        "check",
        "--disable-fetch",
        "advisories",
    ]))?;
    Ok(String::new())
}
