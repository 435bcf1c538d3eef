//! `cargo xtask alerts`: the alert rules in `alerts/`, checked and tested.

#[cfg(test)]
mod consistency;
mod excerpt;
#[cfg(test)]
mod inhibition;
pub(crate) mod rules;
pub(crate) mod yaml;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::cargo::{typed, workspace};
use crate::interrupt::Interrupt;
use crate::programs::PROMTOOL;

/// How long one run of promtool may take.
const LIMIT: Duration = Duration::from_mins(5);

/// Checks the rules and runs their tests.
pub(crate) fn run(interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    println!("    {}", check(&root, interrupt)?);
    Ok(())
}

/// The step of `cargo xtask test`: checks the rules and runs their tests. Returns a remark.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<String> {
    let promtool = &PROMTOOL.find(interrupt)?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(promtool);
        command.args(arguments).current_dir(root);
        println!("    $ {}", typed(&command));
        interrupt.stdout(&mut command, LIMIT).map(drop)
    };
    run(&["check", "rules", "--lint=all", "--lint-fatal", rules::RULES])?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let scenarios = rules::write_scenarios(root, folder.path())?;
    run(&["test", "rules", &scenarios.to_string_lossy()])?;
    println!("    testing each rule with the rules that it needs");
    excerpt::test(root, promtool, interrupt)?;
    let rules = rules::rules(root)?;
    let alerts = rules.iter().filter(|rule| rule.is_alert).count();
    Ok(format!("{alerts} alerts"))
}
