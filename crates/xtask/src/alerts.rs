//! The alerts: the rules of Prometheus in `alerts/`, checked, tested, and tested for whether their
//! tests would notice a change.

#[cfg(test)]
mod consistency;
mod hunt;
mod mutant;
mod promql;
mod rules;
mod written;
mod yaml;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{typed, workspace};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::prometheus::PROMTOOL;

/// How long promtool may take for all tests.
const LIMIT: Duration = Duration::from_mins(5);

/// Writes the files that are made from the rules, then checks everything.
pub(crate) fn run(interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    written::write(&root)?;
    println!("    {}", check(&root, interrupt)?);
    Ok(())
}

/// Checks the rules, runs their tests, and hunts for changes that no test notices. Answers a
/// remark with the numbers.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<String> {
    let promtool = PROMTOOL.find(interrupt)?;
    written::check(root)?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&promtool);
        command.args(arguments).current_dir(root);
        println!("    $ {}", typed(&command));
        match interrupt.output(&mut command, LIMIT)? {
            Some(output) if output.status.success() => Ok(()),
            Some(output) => Err(Error::new(format!(
                "`{}` ended with {}\n{}{}",
                typed(&command),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr).trim_end(),
            ))),
            None => Err(Error::new(format!(
                "`{}` did not end within {} s",
                typed(&command),
                LIMIT.as_secs()
            ))),
        }
    };
    run(&["check", "rules", "--lint=all", "--lint-fatal", rules::RULES])?;
    // The tests of single rules run in the hunt, each with the rules that it needs and no others,
    // which is the same and takes a tenth of the time.
    run(&["test", "rules", rules::SCENARIOS])?;
    println!("    changing one thing after the other in the rules");
    let changes = hunt::hunt(root, &promtool, interrupt)?;
    let alerts = rules::rules(root)?
        .iter()
        .filter(|rule| rule.is_alert)
        .count();
    Ok(format!(
        "{alerts} alerts; each of {changes} changes of the rules turns a test red"
    ))
}
