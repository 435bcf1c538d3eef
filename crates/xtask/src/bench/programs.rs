//! The programs with the scenarios.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Scale, rivals};
use crate::cargo::{Artifacts, cargo};
use crate::interrupt::Interrupt;
use anyhow::{Context as _, Result};

/// The bench targets with scenarios.
const TARGETS: &[&str] = &["scenarios", "allocations"];
/// How long a program may take to list its scenarios.
const ANSWER: Duration = Duration::from_secs(10);

/// A scenario of the benchmarks.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// A sentence that describes it.
    pub(crate) description: String,
    program: PathBuf,
}

impl Scenario {
    /// Returns the command that runs it.
    pub(super) fn command(&self, scale: Scale) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.name);
        if scale == Scale::Quick {
            command.arg("--quick");
        }
        command
    }
}

/// All scenarios.
#[derive(Debug)]
pub(crate) struct Programs(Vec<Scenario>);

impl Programs {
    /// Builds the programs with optimizations.
    pub(super) fn build(interrupt: &Interrupt) -> Result<Programs> {
        let mut build = cargo(["bench", "--no-run"]);
        for target in TARGETS {
            build.args(["--bench", target]);
        }
        let artifacts = Artifacts::of(&mut build, interrupt)?;
        let mut all = Vec::new();
        for target in TARGETS {
            all.append(&mut scenarios(&artifacts.executable(target)?, interrupt)?);
        }
        Ok(Programs(all))
    }

    /// Returns the scenarios with these names, in this order, or all but `rivals` without names.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<&Scenario>> {
        if names.is_empty() {
            let all = self.0.iter();
            return Ok(all.filter(|one| one.name != rivals::SCENARIO).collect());
        }
        let find = |name: &String| {
            let scenario = self.0.iter().find(|scenario| scenario.name == *name);
            scenario.with_context(|| {
                let known = self.0.iter();
                let known = known.map(|one| format!("\n    {:<14} {}", one.name, one.description));
                format!(
                    "unknown scenario `{name}`; expected one of:{}",
                    known.collect::<String>()
                )
            })
        };
        names.iter().map(find).collect()
    }
}

/// Asks a program for its scenarios.
fn scenarios(program: &Path, interrupt: &Interrupt) -> Result<Vec<Scenario>> {
    let list = interrupt.stdout(&mut Command::new(program), ANSWER)?;
    Ok(list
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, description)| Scenario {
            name: name.to_owned(),
            description: description.to_owned(),
            program: program.to_owned(),
        })
        .collect())
}
