//! Mutation testing of the alert rules: every change of one thing in a rule must fail a test.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::mutants::mutants;
use super::rules::{Excerpt, Rule, rules, tests};
use crate::interrupt::Interrupt;

/// How many mutants one promtool tests: its start takes longer than a small test.
const BATCH: usize = 8;
/// How long promtool may take for a batch.
const LIMIT: Duration = Duration::from_mins(10);

/// A rule to test.
#[derive(Clone, Debug)]
struct Candidate {
    /// The index of the rule in the file.
    index: usize,
    /// The change; `None` for the original rule.
    change: Option<String>,
    rule: Rule,
}

/// Runs promtool on rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutation<'a> {
    pub(crate) root: &'a Path,
    pub(crate) promtool: &'a Path,
    pub(crate) interrupt: &'a Interrupt,
}

impl Mutation<'_> {
    /// Tests the original rules, each with only the rules that it needs. This takes a tenth of the
    /// time of testing all at once.
    pub(crate) fn test_originals(self) -> Result<()> {
        let (rules, tests) = (rules(self.root)?, tests(self.root)?);
        let originals = rules.iter().enumerate().map(|(index, rule)| Candidate {
            index,
            change: None,
            rule: rule.clone(),
        });
        let untested = self.survivors(originals.collect(), &excerpts(&rules, &tests))?;
        ensure!(
            untested.is_empty(),
            "rules without a test:\n  {}",
            list(&untested)
        );
        Ok(())
    }

    /// Demands that each mutant fails a test, and returns their number.
    pub(crate) fn test_mutants(self) -> Result<usize> {
        let (rules, tests) = (rules(self.root)?, tests(self.root)?);
        let all: Vec<Candidate> = rules
            .iter()
            .enumerate()
            .flat_map(|(index, rule)| {
                mutants(rule).into_iter().map(move |mutant| Candidate {
                    index,
                    change: Some(mutant.change),
                    rule: mutant.rule,
                })
            })
            .collect();
        let count = all.len();
        // Most mutants fail a test that simulates less than an hour, which is fast.
        let excerpts = excerpts(&rules, &tests);
        let short: Vec<Excerpt> = excerpts.iter().map(Excerpt::short).collect();
        let left = self.survivors(all, &short)?;
        let survivors = self.survivors(left, &excerpts)?;
        ensure!(
            survivors.is_empty(),
            "{} of {count} mutants pass all tests:\n  {}",
            survivors.len(),
            list(&survivors)
        );
        Ok(count)
    }

    /// Tests the candidates on all processors. Returns the mutants that pass, and the rules that
    /// have no test.
    fn survivors(
        self,
        mut candidates: Vec<Candidate>,
        excerpts: &[Excerpt],
    ) -> Result<Vec<Candidate>> {
        candidates.sort_by_key(|candidate| candidate.index);
        let (mut survivors, mut batches) = (Vec::new(), Vec::<Vec<Candidate>>::new());
        for candidate in candidates {
            let index = candidate.index;
            match batches.last_mut() {
                _ if excerpts[index].tests.is_empty() => survivors.push(candidate),
                Some(batch) if batch.len() < BATCH && batch[0].index == index => {
                    batch.push(candidate);
                }
                _ => batches.push(vec![candidate]),
            }
        }
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let queue = Mutex::new(batches.into_iter().enumerate());
        let next = || queue.lock().ok()?.next();
        let work = || -> Result<Vec<Candidate>> {
            let mut survivors = Vec::new();
            while let Some((number, batch)) = next() {
                let folder = folder.path().join(number.to_string());
                let excerpt = &excerpts[batch[0].index];
                survivors.append(&mut self.test_batch(&folder, excerpt, batch)?);
            }
            Ok(survivors)
        };
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(2, usize::from);
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                let more = thread
                    .join()
                    .map_err(|_| anyhow!("a mutation thread panicked"))?;
                survivors.append(&mut more?);
            }
            Ok(survivors)
        })
    }

    /// Returns the mutants of a batch that pass. An original must pass.
    fn test_batch(
        self,
        folder: &Path,
        excerpt: &Excerpt,
        batch: Vec<Candidate>,
    ) -> Result<Vec<Candidate>> {
        let mut command = Command::new(self.promtool);
        // One promtool runs per processor.
        command.env("GOMAXPROCS", "1").args(["test", "rules"]);
        let mut files = Vec::new();
        for (number, candidate) in batch.iter().enumerate() {
            let folder = folder.join(number.to_string());
            let file = folder.join("tests.yml");
            let write = || {
                fs::create_dir_all(&folder)?;
                let rules = excerpt.rules_with(&candidate.rule);
                fs::write(folder.join("rules.yml"), rules.to_string())?;
                fs::write(&file, excerpt.tests_of("rules.yml").to_string())
            };
            write().with_context(|| format!("cannot write to {}", folder.display()))?;
            command.arg(&file);
            files.push(file.display().to_string());
        }
        let output = self.interrupt.output(&mut command, LIMIT)?;
        let output = output.with_context(|| format!("promtool did not end within {LIMIT:?}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let failed = failed(&files, &String::from_utf8_lossy(&output.stdout), &errors)?;
        let mut survivors = Vec::new();
        for (candidate, failed) in batch.into_iter().zip(failed) {
            match (&candidate.change, failed) {
                (Some(_), false) => survivors.push(candidate),
                (None, true) => bail!("tests of {} fail:\n{errors}", candidate.rule.name),
                (Some(_), true) | (None, false) => {}
            }
        }
        Ok(survivors)
    }
}

/// For each rule, the rules and tests that show its effect.
fn excerpts(rules: &[Rule], tests: &[serde_json::Value]) -> Vec<Excerpt> {
    let excerpt = |rule| Excerpt::about(rule, rules, tests);
    rules.iter().map(excerpt).collect()
}

fn list(candidates: &[Candidate]) -> String {
    let lines = candidates.iter().map(|candidate| match &candidate.change {
        Some(change) => format!("{}: {change}", candidate.rule.name),
        None => candidate.rule.name.clone(),
    });
    lines.collect::<Vec<_>>().join("\n  ")
}

/// Whether each file has a failed test, from the output of promtool.
fn failed(files: &[String], out: &str, err: &str) -> Result<Vec<bool>> {
    let reports: Vec<&str> = out.split("Unit Testing:").skip(1).collect();
    let in_order = reports.len() == files.len()
        && reports
            .iter()
            .zip(files)
            .all(|(report, file)| report.contains(file.as_str()));
    ensure!(in_order, "promtool reports other tests:\n{out}{err}");
    let failed: Vec<bool> = reports
        .iter()
        .map(|report| !report.contains("SUCCESS"))
        .collect();
    // A failed test compares. A rule that promtool rejects proves nothing.
    let failures: Vec<&str> = err.split("FAILED:").skip(1).collect();
    let compares = |failure: &&str| failure.contains("exp:") && failure.contains("got:");
    if let Some(rejected) = failures.iter().find(|failure| !compares(failure)) {
        bail!("promtool rejects a mutant:{rejected}");
    }
    ensure!(
        failures.len() == failed.iter().filter(|failed| **failed).count(),
        "promtool does not say what failed:\n{out}{err}"
    );
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::failed;

    #[test]
    fn a_mutant_is_detected_when_a_test_compares_and_differs() {
        let files = ["a.yml".to_owned(), "b.yml".to_owned()];
        let out = "Unit Testing:  a.yml\n  SUCCESS\n\nUnit Testing:  b.yml\n\n";
        let differs = "  FAILED:\n    alertname: A, time: 5m,\n exp:[]\n got:[x]\n";
        let both = failed(&files, out, differs).expect("two reports");
        assert_eq!(both, [false, true]);

        let rejected = "  FAILED:\n    rules.yml: could not parse expression\n";
        failed(&files, out, rejected).expect_err("a rejected rule");
        failed(&files, out, "").expect_err("no comparison");
        failed(&files[..1], out, differs).expect_err("another test");
    }
}
