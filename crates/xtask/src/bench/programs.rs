//! The programs with the scenarios.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::rivals;
use crate::cargo::{Artifacts, cargo};
use crate::interrupt::Interrupt;
use anyhow::{Context as _, Result};

/// The bench targets with scenarios.
const TARGETS: &[&str] = &["scenarios", "allocations"];
/// How long a program may take to list its scenarios.
const ANSWER: Duration = Duration::from_secs(10);

/// A scenario of the benchmarks.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    /// A sentence that describes it.
    pub(super) description: String,
    pub(super) program: PathBuf,
}

/// Builds the programs with optimizations. Returns the scenarios with these names, in this order, or all but `rivals`
/// without names.
pub(super) fn chosen(names: &[String], interrupt: &Interrupt) -> Result<Vec<Scenario>> {
    let mut build = cargo(["bench", "--no-run"]);
    for target in TARGETS {
        build.args(["--bench", target]);
    }
    let artifacts = Artifacts::of(&mut build, interrupt)?;
    let mut all = Vec::new();
    for target in TARGETS {
        all.append(&mut scenarios(&artifacts.executable(target)?, interrupt)?);
    }
    if names.is_empty() {
        all.retain(|one| one.name != rivals::SCENARIO);
        return Ok(all);
    }
    let known = all
        .iter()
        .map(|one| format!("\n    {:<14} {}", one.name, one.description));
    let known = known.collect::<Vec<_>>().concat();
    let find = |name: &String| {
        let scenario = all.iter().find(|one| one.name == *name).cloned();
        scenario.with_context(|| format!("unknown scenario `{name}`; expected one of:{known}"))
    };
    names.iter().map(find).collect()
}

/// Asks a program for its scenarios.
fn scenarios(program: &Path, interrupt: &Interrupt) -> Result<Vec<Scenario>> {
    let list = interrupt.stdout(&mut Command::new(program), ANSWER)?;
    let lines = list.lines().filter_map(|line| line.split_once('\t'));
    let scenarios = lines.map(|(name, description)| Scenario {
        name: name.to_owned(),
        description: description.to_owned(),
        program: program.to_owned(),
    });
    Ok(scenarios.collect())
}
