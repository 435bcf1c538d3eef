//! The hunt for mutants that survive: changes of the rules that no test notices.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::mutant::mutants;
use super::rules::{Excerpt, Rule, rules, tests};
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// How many changes one promtool is given: starting it takes longer than a small test.
const BATCH: usize = 8;
/// How long it may take for them.
const LIMIT: Duration = Duration::from_mins(10);

/// A rule as it is, or with a change, and what to say when no test notices.
type Prey = (Option<String>, Rule);

/// Changes one thing after the other in the rules and demands that a test turns red; answers how
/// many changes there were. The error lists those that no test noticed.
pub(crate) fn hunt(root: &Path, promtool: &Path, interrupt: &Interrupt) -> Result<usize> {
    let rules = rules(root)?;
    let tests = tests(root)?;
    let excerpts: Vec<Excerpt> = rules
        .iter()
        .map(|rule| Excerpt::about(rule, &rules, &tests))
        .collect();
    let mut batches: Vec<(&Excerpt, Vec<Prey>)> = Vec::new();
    let mut survivors = Vec::new();
    let mut changes = 0;
    for (rule, excerpt) in rules.iter().zip(&excerpts) {
        if excerpt.tests.is_empty() {
            survivors.push(format!("{}: no test tells about it", rule.name));
            continue;
        }
        // First without a change: what fails anyhow would notice everything.
        let mut prey: Vec<Prey> = vec![(None, rule.clone())];
        for mutant in mutants(rule) {
            prey.push((Some(mutant.change), mutant.rule));
            changes += 1;
        }
        while !prey.is_empty() {
            let rest = prey.split_off(prey.len().min(BATCH));
            batches.push((excerpt, prey));
            prey = rest;
        }
    }

    let place = tempfile::tempdir().during(|| "cannot make a folder for changed rules")?;
    let queue = Mutex::new(batches.into_iter().enumerate());
    let next = || queue.lock().ok()?.next();
    let found = Mutex::new(Ok(survivors));
    let hunt = || {
        while let Some((number, (excerpt, prey))) = next() {
            let folder = place.path().join(number.to_string());
            let unnoticed = unnoticed(&folder, promtool, interrupt, excerpt, &prey);
            let Ok(mut found) = found.lock() else { return };
            match (&mut *found, unnoticed) {
                (Err(_), _) => return,
                (Ok(survivors), Ok(more)) => survivors.extend(more),
                (found, Err(error)) => *found = Err(error),
            }
        }
    };
    let hunters = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..hunters {
            scope.spawn(hunt);
        }
    });
    let mut survivors = found
        .into_inner()
        .map_err(|_| Error::new("a thread of the hunt panicked"))??;
    if survivors.is_empty() {
        return Ok(changes);
    }
    survivors.sort();
    Err(Error::new(format!(
        "no test notices {} of {changes} changes of the rules:\n  {}",
        survivors.len(),
        survivors.join("\n  ")
    )))
}

/// The changes that turn no test red.
fn unnoticed(
    folder: &Path,
    promtool: &Path,
    interrupt: &Interrupt,
    excerpt: &Excerpt,
    prey: &[Prey],
) -> Result<Vec<String>> {
    let mut command = Command::new(promtool);
    // As many run at once as there are processors.
    command.env("GOMAXPROCS", "1").args(["test", "rules"]);
    let mut files = Vec::new();
    for (number, (_, rule)) in prey.iter().enumerate() {
        let folder = folder.join(number.to_string());
        let file = folder.join("tests.yml");
        let write = || {
            fs::create_dir_all(&folder)?;
            fs::write(
                folder.join("rules.yml"),
                excerpt.rules_with(rule).to_string(),
            )?;
            fs::write(&file, excerpt.tests_of("rules.yml").to_string())
        };
        write().during(|| format!("cannot write into {}", folder.display()))?;
        command.arg(&file);
        files.push(file.display().to_string());
    }
    let Some(output) = interrupt.output(&mut command, LIMIT)? else {
        return Err(Error::new(format!(
            "promtool did not end within {} s on {} changes",
            LIMIT.as_secs(),
            prey.len()
        )));
    };
    let verdicts = verdicts(
        &files,
        &String::from_utf8_lossy(&output.stdout),
        &String::from_utf8_lossy(&output.stderr),
    )
    .map_err(Error::new)?;
    let mut unnoticed = Vec::new();
    for ((change, rule), is_red) in prey.iter().zip(verdicts) {
        match (change, is_red) {
            (Some(change), false) => unnoticed.push(format!("{}: {change}", rule.name)),
            (None, true) => {
                return Err(Error::new(format!(
                    "the tests of {} fail with only the rules that it needs",
                    rule.name
                )));
            }
            _ => {}
        }
    }
    Ok(unnoticed)
}

/// Whether each file is red, by what promtool printed about them.
fn verdicts(files: &[String], out: &str, err: &str) -> Result<Vec<bool>, String> {
    let told: Vec<&str> = out.split("Unit Testing:").skip(1).collect();
    let in_order = told.len() == files.len()
        && told
            .iter()
            .zip(files)
            .all(|(told, file)| told.contains(file.as_str()));
    if !in_order {
        return Err(format!("promtool tells of other tests:\n{out}{err}"));
    }
    let red: Vec<bool> = told.iter().map(|told| !told.contains("SUCCESS")).collect();
    // A test that is red compares. What promtool refuses proves nothing.
    let failures: Vec<&str> = err.split("FAILED:").skip(1).collect();
    let refused = failures
        .iter()
        .find(|told| !(told.contains("exp:") && told.contains("got:")));
    match refused {
        Some(refused) => Err(format!("promtool refuses a change:{refused}")),
        None if failures.len() != red.iter().filter(|red| **red).count() => {
            Err(format!("cannot tell what failed:\n{out}{err}"))
        }
        None => Ok(red),
    }
}

#[cfg(test)]
mod tests {
    use super::verdicts;

    #[test]
    fn a_change_is_noticed_when_its_tests_compare_and_differ() {
        let files = ["a.yml".to_owned(), "b.yml".to_owned()];
        let out = "Unit Testing:  a.yml\n  SUCCESS\n\nUnit Testing:  b.yml\n\n";
        let red = "  FAILED:\n    alertname: A, time: 5m,\n exp:[]\n got:[x]\n";
        assert_eq!(verdicts(&files, out, red), Ok(vec![false, true]));

        let refused = "  FAILED:\n    rules.yml: could not parse expression\n";
        assert!(verdicts(&files, out, refused).is_err(), "it proves nothing");
        assert!(
            verdicts(&files, out, "").is_err(),
            "it says not what failed"
        );
        assert!(verdicts(&files[..1], out, red).is_err(), "another test");
    }
}
