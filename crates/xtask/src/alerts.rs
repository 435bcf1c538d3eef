//! `cargo xtask alerts`: the alert rules in `alerts/`, checked and tested.

#[cfg(test)]
mod consistency;
#[cfg(test)]
mod inhibition;
pub(crate) mod rules;
pub(crate) mod yaml;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use self::rules::{RULES, Rule, rules, scenarios, tests, words};
use crate::cargo::{typed, workspace};
use crate::interrupt::Interrupt;
use crate::programs::PROMTOOL;

/// How long one run of promtool may take.
const LIMIT: Duration = Duration::from_mins(10);

/// Checks the rules and runs their tests.
pub(crate) fn run(interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    println!("    {}", check(&root, interrupt)?);
    Ok(())
}

/// The step of `cargo xtask test`: checks the rules and runs their tests on all processors. Returns a remark.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<String> {
    let promtool = &PROMTOOL.find(interrupt)?;
    let mut lint = Command::new(promtool);
    lint.args(["check", "rules", "--lint=all", "--lint-fatal", RULES]);
    println!("    $ {}", typed(&lint));
    interrupt.stdout(lint.current_dir(root), LIMIT)?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let files = write_tests(root, folder.path())?;
    println!("    testing the rules with {} files", files.len());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|at| {
                let mut test = Command::new(promtool);
                // One promtool runs per processor.
                test.env("GOMAXPROCS", "1").args(["test", "rules"]);
                test.args(files.iter().skip(at).step_by(threads));
                scope.spawn(move || interrupt.stdout(&mut test, LIMIT))
            })
            .collect();
        runs.into_iter().try_for_each(|run| {
            let tested = run.join().map_err(|_| anyhow!("a thread panicked"))?;
            tested.map(drop)
        })
    })?;
    let rules = rules(root)?;
    let alerts = rules.iter().filter(|rule| rule.is_alert).count();
    Ok(format!("{alerts} alerts"))
}

/// Writes the scenarios, and each other test with only the rules that it needs, which takes a tenth of the time of
/// testing all rules at once. Returns the files.
fn write_tests(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let write = |name: &str, content: &Value| {
        let file = folder.join(name);
        fs::write(&file, content.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok::<_, anyhow::Error>(file)
    };
    let rules = rules(root)?;
    let mut files = vec![write("scenarios.json", &scenarios(root)?)?];
    let mut tested = BTreeSet::new();
    for (number, test) in tests(root)?.into_iter().enumerate() {
        let needed = needed(&test, &rules);
        tested.extend(needed.iter().map(|rule| &*rule.name));
        let needed: Vec<&Value> = needed.iter().map(|rule| &rule.value).collect();
        let rule_file = format!("rules-{number}.json");
        write(
            &rule_file,
            &json!({"groups": [{"name": "excerpt", "rules": needed}]}),
        )?;
        let test = json!({"rule_files": [rule_file], "evaluation_interval": "1m", "tests": [test]});
        files.push(write(&format!("test-{number}.json"), &test)?);
    }
    for rule in &rules {
        ensure!(tested.contains(&*rule.name), "{} has no test", rule.name);
    }
    Ok(files)
}

/// Returns the rules that a test names, and those that these read, in their order.
fn needed<'a>(test: &Value, rules: &'a [Rule]) -> Vec<&'a Rule> {
    let text = test.to_string();
    let mut named: BTreeSet<&str> = words(&text).collect();
    let mut needed = Vec::new();
    // A rule comes after those that it reads.
    for rule in rules.iter().rev() {
        if named.contains(&*rule.name) {
            named.extend(words(rule.text("expr")));
            needed.insert(0, rule);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::rules::rule;

    #[test]
    fn a_test_needs_the_rules_that_it_names_and_those_that_they_read() {
        let rules: Vec<_> = [
            json!({"record": "r:a", "expr": "rate(a[5m])"}),
            json!({"record": "r:b", "expr": "rate(r:a[5m])"}),
            json!({"record": "r:c", "expr": "rate(c[5m])"}),
            json!({"alert": "A", "expr": "r:b > 1 and c > 2"}),
            json!({"alert": "B", "expr": "r:c > 1"}),
        ]
        .iter()
        .map(|value| rule(value).expect("a rule"))
        .collect();
        let query = json!({"promql_expr_test": [{"expr": "ALERTS{alertname=\"A\"}"}]});
        for (test, expected) in [
            (
                json!({"alert_rule_test": [{"alertname": "A"}]}),
                "r:a r:b A",
            ),
            (query, "r:a r:b A"),
            (
                json!({"promql_expr_test": [{"expr": "r:b == 1"}]}),
                "r:a r:b",
            ),
            (json!({"input_series": [{"series": "a"}]}), ""),
        ] {
            let needed = needed(&test, &rules).into_iter();
            let names: Vec<&str> = needed.map(|rule| &*rule.name).collect();
            assert_eq!(names.join(" "), expected, "{test}");
        }
    }
}
