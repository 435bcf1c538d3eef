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

/// A rule as it is, or with a change.
#[derive(Clone, Debug)]
struct Prey {
    /// Which one it is, in the order of the file.
    at: usize,
    /// What was changed, for people.
    change: Option<String>,
    rule: Rule,
}

/// Changes one thing after the other in the rules and demands that a test turns red; answers how
/// many changes there were. The error lists those that no test noticed.
pub(crate) fn hunt(root: &Path, promtool: &Path, interrupt: &Interrupt) -> Result<usize> {
    let rules = rules(root)?;
    let tests = tests(root)?;
    let changes: Vec<Prey> = rules
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| {
            mutants(rule).into_iter().map(move |mutant| Prey {
                at,
                change: Some(mutant.change),
                rule: mutant.rule,
            })
        })
        .collect();
    let count = changes.len();
    // Without a change nothing may be red: what fails anyhow would notice everything.
    let unchanged = rules.iter().enumerate().map(|(at, rule)| Prey {
        at,
        change: None,
        rule: rule.clone(),
    });

    // Most changes are noticed within an hour of a test's time, which takes a moment. Only what is
    // left goes through the long tests, and then through those of the rules that read the rule.
    let hunter = Hunter {
        promtool,
        interrupt,
    };
    let excerpts = |of: &dyn Fn(&Rule) -> Excerpt| rules.iter().map(of).collect::<Vec<Excerpt>>();
    let quick = excerpts(&|rule| Excerpt::of(rule, &rules, &tests).quick());
    let mut left = hunter.hunt(changes, &quick)?;
    left.extend(unchanged);
    let all = excerpts(&|rule| Excerpt::of(rule, &rules, &tests));
    let left = hunter.hunt(left, &all)?;
    let (alerts, records): (Vec<Prey>, Vec<Prey>) =
        left.into_iter().partition(|prey| prey.rule.is_alert);
    let wide = excerpts(&|rule| Excerpt::about(rule, &rules, &tests));
    let mut survivors = hunter.hunt(records, &wide)?;
    survivors.extend(alerts);
    if survivors.is_empty() {
        return Ok(count);
    }
    survivors.sort_by_key(|prey| prey.at);
    let lines: Vec<String> = survivors
        .iter()
        .map(|prey| {
            let change = prey.change.as_deref().unwrap_or("no test tells about it");
            format!("{}: {change}", prey.rule.name)
        })
        .collect();
    Err(Error::new(format!(
        "no test notices {} of {count} changes of the rules:\n  {}",
        lines.len(),
        lines.join("\n  ")
    )))
}

#[derive(Clone, Copy, Debug)]
struct Hunter<'a> {
    promtool: &'a Path,
    interrupt: &'a Interrupt,
}

impl Hunter<'_> {
    /// Runs the tests of each change's rule, on all processors; answers the changes that no test
    /// noticed.
    fn hunt(self, mut prey: Vec<Prey>, excerpts: &[Excerpt]) -> Result<Vec<Prey>> {
        let mut survivors = Vec::new();
        let mut batches: Vec<Vec<Prey>> = Vec::new();
        prey.sort_by_key(|prey| prey.at);
        for prey in prey {
            match batches.last_mut() {
                _ if excerpts[prey.at].tests.is_empty() => survivors.push(prey),
                Some(batch) if batch.len() < BATCH && batch[0].at == prey.at => batch.push(prey),
                _ => batches.push(vec![prey]),
            }
        }
        let place = tempfile::tempdir().during(|| "cannot make a folder for changed rules")?;
        let queue = Mutex::new(batches.into_iter().enumerate());
        let next = || queue.lock().ok()?.next();
        let found = Mutex::new(Ok(survivors));
        let work = || {
            while let Some((number, batch)) = next() {
                let folder = place.path().join(number.to_string());
                let excerpt = &excerpts[batch[0].at];
                let unnoticed = unnoticed(&folder, self.promtool, self.interrupt, excerpt, batch);
                let Ok(mut found) = found.lock() else { return };
                match (&mut *found, unnoticed) {
                    (Err(_), _) => return,
                    (Ok(survivors), Ok(more)) => survivors.extend(more),
                    (found, Err(error)) => *found = Err(error),
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(work);
            }
        });
        found
            .into_inner()
            .map_err(|_| Error::new("a thread of the hunt panicked"))?
    }
}

/// The changes that turn no test red.
fn unnoticed(
    folder: &Path,
    promtool: &Path,
    interrupt: &Interrupt,
    excerpt: &Excerpt,
    prey: Vec<Prey>,
) -> Result<Vec<Prey>> {
    let mut command = Command::new(promtool);
    // As many run at once as there are processors.
    command.env("GOMAXPROCS", "1").args(["test", "rules"]);
    let mut files = Vec::new();
    for (number, prey) in prey.iter().enumerate() {
        let folder = folder.join(number.to_string());
        let file = folder.join("tests.yml");
        let write = || {
            fs::create_dir_all(&folder)?;
            fs::write(
                folder.join("rules.yml"),
                excerpt.rules_with(&prey.rule).to_string(),
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
    for (prey, is_red) in prey.into_iter().zip(verdicts) {
        match (&prey.change, is_red) {
            (Some(_), false) => unnoticed.push(prey),
            (None, true) => {
                return Err(Error::new(format!(
                    "the tests of {} fail with only the rules that it needs:\n{}",
                    prey.rule.name,
                    String::from_utf8_lossy(&output.stderr)
                )));
            }
            (Some(_), true) | (None, false) => {}
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
