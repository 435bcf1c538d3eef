//! Each rule with the rules and tests that show its effect. Testing these excerpts takes a tenth of
//! the time of testing all rules at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::rules::{Rule, rules, tests};
use crate::interrupt::Interrupt;

/// How long promtool may take for its share of the rules.
const LIMIT: Duration = Duration::from_mins(10);

/// Tests each rule with only the rules that it needs, on all processors.
pub(crate) fn test(root: &Path, promtool: &Path, interrupt: &Interrupt) -> Result<()> {
    let (rules, tests) = (rules(root)?, tests(root)?);
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut files = Vec::new();
    for rule in &rules {
        let excerpt = Excerpt::about(rule, &rules, &tests);
        ensure!(!excerpt.tests.is_empty(), "{} has no test", rule.name);
        files.push(excerpt.write(&folder.path().join(&rule.name))?);
    }
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let share = |at: usize| files.iter().skip(at).step_by(threads);
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|at| {
                let mut promtool = Command::new(promtool);
                // One promtool runs per processor.
                promtool.env("GOMAXPROCS", "1").args(["test", "rules"]);
                promtool.args(share(at));
                scope.spawn(move || interrupt.stdout(&mut promtool, LIMIT))
            })
            .collect();
        runs.into_iter().try_for_each(|run| {
            let tested = run.join().map_err(|_| anyhow!("a thread panicked"))?;
            tested.map(drop)
        })
    })
}

/// The part of the rules and tests that shows the effect of one rule.
#[derive(Clone, Debug)]
struct Excerpt<'a> {
    /// In the order of the file.
    rules: Vec<&'a Rule>,
    /// Without expectations about other alerts. Empty if the rule has no test.
    tests: Vec<Value>,
}

impl<'a> Excerpt<'a> {
    /// The tests that name the rule or a rule that reads it, and the rules that these need.
    fn about(rule: &Rule, rules: &'a [Rule], tests: &[Value]) -> Excerpt<'a> {
        // A rule comes after those that it reads.
        let mut affected = BTreeSet::from([rule.name.as_str()]);
        for other in rules {
            if other.reads().any(|name| affected.contains(name)) {
                affected.insert(&other.name);
            }
        }
        let mut needed = affected.clone();
        for other in rules.iter().rev() {
            if needed.contains(&*other.name) {
                needed.extend(other.reads());
            }
        }
        let is_needed = |other: &&Rule| needed.contains(&*other.name);
        let cut = |test| cut(test, &affected, &needed);
        Excerpt {
            tests: tests.iter().filter_map(cut).collect(),
            rules: rules.iter().filter(is_needed).collect(),
        }
    }

    /// Writes the rules and the tests into a new folder, and returns the file of the tests.
    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let rules: Vec<&Value> = self.rules.iter().map(|rule| &rule.value).collect();
        let rules = json!({"groups": [{"name": "excerpt", "rules": rules}]});
        let tests = json!({
            "rule_files": ["rules.yml"],
            "evaluation_interval": "1m",
            "tests": self.tests,
        });
        let file = folder.join("tests.yml");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(folder.join("rules.yml"), rules.to_string()))
            .and_then(|()| fs::write(&file, tests.to_string()))
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(file)
    }
}

/// Cuts a test down to expectations about `affected` rules and the series of `needed` ones.
fn cut(test: &Value, affected: &BTreeSet<&str>, needed: &BTreeSet<&str>) -> Option<Value> {
    let list = |field: &str| test[field].as_array().cloned().unwrap_or_default();
    let mut alerts = list("alert_rule_test");
    alerts.retain(|entry| {
        entry["alertname"]
            .as_str()
            .is_some_and(|name| affected.contains(name))
    });
    let mut queries = list("promql_expr_test");
    queries.retain(|entry| {
        let query = entry["expr"].as_str().unwrap_or_default();
        affected.iter().any(|name| {
            query
                .split(['"', '{', ' ', '(', ')'])
                .any(|word| word == *name)
        })
    });
    if alerts.is_empty() && queries.is_empty() {
        return None;
    }
    let mut series = list("input_series");
    series.retain(|entry| {
        let name = entry["series"].as_str().unwrap_or_default();
        needed.contains(name.split('{').next().unwrap_or_default())
    });
    let mut cut = test.clone();
    cut["alert_rule_test"] = Value::Array(alerts);
    cut["promql_expr_test"] = Value::Array(queries);
    cut["input_series"] = Value::Array(series);
    Some(cut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Excerpt;
    use crate::alerts::rules::rule;

    #[test]
    fn an_excerpt_has_the_rules_that_the_rule_needs_and_that_need_it() {
        let rules: Vec<_> = [
            json!({"record": "r:a", "expr": "rate(a[5m])"}),
            json!({"record": "r:b", "expr": "rate(b[5m])"}),
            json!({"alert": "A", "expr": "r:a > 1 and c > 2"}),
            json!({"alert": "B", "expr": "r:b > 1"}),
        ]
        .iter()
        .map(|value| rule(value).expect("a rule"))
        .collect();
        let tests = [
            json!({
                "input_series": [{"series": "a{x=\"1\"}"}, {"series": "b"}, {"series": "c"}],
                "alert_rule_test": [{"alertname": "A"}, {"alertname": "B"}],
            }),
            json!({
                "promql_expr_test": [{"expr": "ALERTS{alertname=\"A\"}"}, {"expr": "r:b"}],
            }),
        ];
        let excerpt = Excerpt::about(&rules[3], &rules, &tests);
        assert_eq!(excerpt.tests.len(), 1);

        let excerpt = Excerpt::about(&rules[0], &rules, &tests);
        let names: Vec<&str> = excerpt.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["r:a", "A"]);
        assert_eq!(excerpt.tests.len(), 2);
        assert_eq!(
            excerpt.tests[0]["input_series"],
            json!([{"series": "a{x=\"1\"}"}, {"series": "c"}])
        );
        assert_eq!(
            excerpt.tests[1]["promql_expr_test"],
            json!([{"expr": "ALERTS{alertname=\"A\"}"}])
        );

        let excerpt = Excerpt::about(&rules[2], &rules, &tests);
        let names: Vec<&str> = excerpt.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["r:a", "A"], "with the rules that it reads");
    }
}
