//! The hunt for mutants that survive: changes of the rules that no test notices.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::mutant::{Mutant, mutants};
use super::rules::{Excerpt, Rule, rules, tests};
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// How long promtool may take for one mutant.
const LIMIT: Duration = Duration::from_mins(1);

/// Changes one thing after the other in the rules and demands that a test turns red; answers how
/// many changes there were. The error lists those that no test noticed.
pub(crate) fn hunt(root: &Path, promtool: &Path, interrupt: &Interrupt) -> Result<usize> {
    let rules = rules(root)?;
    let tests = tests(root)?;
    let folder = tempfile::tempdir().during(|| "cannot make a folder for mutants")?;
    let excerpts: Vec<Excerpt> = rules
        .iter()
        .map(|rule| Excerpt::about(rule, &rules, &tests))
        .collect();
    let mut prey = Vec::new();
    let mut survivors = Vec::new();
    for (rule, excerpt) in rules.iter().zip(&excerpts) {
        if excerpt.tests.is_empty() {
            survivors.push(format!("{}: no test tells about it", rule.name));
            continue;
        }
        // First without a change: what fails anyhow would notice everything.
        prey.push((None, rule.clone(), excerpt));
        for Mutant { rule, change } in mutants(rule) {
            prey.push((Some(change), rule, excerpt));
        }
    }
    let count = prey.iter().filter(|(change, ..)| change.is_some()).count();

    let queue = Mutex::new(prey.into_iter().enumerate());
    let found: Mutex<Result<Vec<String>>> = Mutex::new(Ok(survivors));
    let next = || queue.lock().ok()?.next();
    let hunters = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..hunters {
            scope.spawn(|| {
                while let Some((number, (change, rule, excerpt))) = next() {
                    let folder = folder.path().join(number.to_string());
                    let outcome = is_noticed(&folder, promtool, interrupt, &rule, excerpt);
                    let Ok(mut found) = found.lock() else { return };
                    match (outcome, change, &mut *found) {
                        (_, _, Err(_)) => return,
                        (Err(error), _, found) => *found = Err(error),
                        (Ok(false), Some(change), Ok(survivors)) => {
                            survivors.push(format!("{}: {change}", rule.name));
                        }
                        (Ok(true), None, found) => {
                            *found = Err(Error::new(format!(
                                "the tests of {} fail with only the rules that it needs",
                                rule.name
                            )));
                        }
                        (Ok(_), _, Ok(_)) => {}
                    }
                }
            });
        }
    });
    let survivors = found
        .into_inner()
        .map_err(|_| Error::new("a thread of the hunt panicked"))??;
    if survivors.is_empty() {
        return Ok(count);
    }
    let mut survivors = survivors;
    survivors.sort();
    Err(Error::new(format!(
        "no test notices {} of {count} changes of the rules:\n  {}",
        survivors.len(),
        survivors.join("\n  ")
    )))
}

/// Whether a test turns red with this rule.
fn is_noticed(
    folder: &Path,
    promtool: &Path,
    interrupt: &Interrupt,
    rule: &Rule,
    excerpt: &Excerpt,
) -> Result<bool> {
    let written = || format!("cannot write into {}", folder.display());
    fs::create_dir_all(folder).during(written)?;
    let file = |name: &str| folder.join(name);
    fs::write(file("rules.yml"), excerpt.rules_with(rule).to_string()).during(written)?;
    fs::write(file("tests.yml"), excerpt.tests_of("rules.yml").to_string()).during(written)?;
    let mut command = Command::new(promtool);
    command.args(["test", "rules"]).arg(file("tests.yml"));
    let Some(output) = interrupt.output(&mut command, LIMIT)? else {
        return Err(Error::new(format!(
            "promtool did not end within a minute on a change of {}",
            rule.name
        )));
    };
    fs::remove_dir_all(folder).during(|| format!("cannot remove {}", folder.display()))?;
    if output.status.success() {
        return Ok(false);
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A test that is red compares; what does not compare was refused, and proves nothing.
    if said.contains("exp:") && said.contains("got:") {
        return Ok(true);
    }
    Err(Error::new(format!(
        "promtool refuses a change of {}, so that it proves nothing: `{}`\n{said}",
        rule.name,
        rule.text("expr")
    )))
}
