//! The dependencies: what they may be, and what is known against them.

use std::time::Duration;

use super::Bench;
use crate::cargo::cargo;
use crate::error::Result;

/// How long the database of advisories may take to come.
const FETCH: Duration = Duration::from_mins(1);

/// Checks bans, licences and sources; and advisories where their database can be reached,
/// with a remark where it cannot.
pub(super) fn check(bench: &Bench<'_>) -> Result<Option<String>> {
    if !bench.has("deny")? {
        println!(
            "    cargo-deny is not installed: building it, once: four minutes on two idle cores"
        );
        // In a folder of cargo's own choice, which it removes: half a gigabyte for one program.
        bench.run(cargo(["install", "cargo-deny", "--locked"]).env_remove("CARGO_TARGET_DIR"))?;
    }
    bench.run(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;

    let mut fetch = cargo(["deny", "fetch", "db"]);
    let fetched = bench
        .interrupt
        .output(fetch.current_dir(&bench.root), FETCH)?;
    let why = match fetched {
        Some(output) if output.status.success() => {
            // It is here: from now on a failure is a finding.
            bench.run(&mut cargo([
                "deny",
                "check",
                "--disable-fetch",
                "advisories",
            ]))?;
            return Ok(None);
        }
        Some(output) => last_words(&String::from_utf8_lossy(&output.stderr)),
        None => format!("no answer within {} s", FETCH.as_secs()),
    };
    let remark = format!("advisories NOT checked: their database cannot be reached ({why})");
    println!("    {remark}");
    Ok(Some(remark))
}

/// The innermost cause that a program gave last.
fn last_words(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or("no reason given")
        .to_owned()
}
