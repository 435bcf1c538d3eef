//! The alert rules and their tests, read from their files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};

use super::promql::{self, Part, Placed};
use super::yaml;

/// The rules, below the root of the repository.
pub(crate) const RULES: &str = "alerts/redrive.rules.yml";
/// The tests of all rules together.
pub(crate) const SCENARIOS: &str = "alerts/tests/scenarios.tests.yml";
/// The situations in which no critical alert may fire, for all rules together.
pub(crate) const FALSE_ALARMS: &str = "alerts/tests/false-alarms.tests.yml";
/// The folder of all tests.
pub(crate) const TESTS: &str = "alerts/tests";

/// An alert or a recording rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The name of the alert or of the recorded series.
    pub(crate) name: String,
    pub(crate) is_alert: bool,
    pub(crate) expression: String,
    pub(crate) parts: Vec<Placed>,
    /// The whole rule.
    pub(crate) value: Value,
}

impl Rule {
    /// Returns a text field, or an empty text if there is none.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.value[field].as_str().unwrap_or_default()
    }

    /// Returns `critical` or `warning`.
    pub(crate) fn severity(&self) -> &str {
        self.value["labels"]["severity"]
            .as_str()
            .unwrap_or_default()
    }

    pub(crate) fn annotation(&self, name: &str) -> &str {
        self.value["annotations"][name].as_str().unwrap_or_default()
    }

    /// Returns the metrics and recorded series in the expression.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|placed| {
            if let Part::Selector(name, _) = &placed.part {
                Some(name.as_str())
            } else {
                None
            }
        })
    }
}

/// Reads the rules in order.
pub(crate) fn rules(root: &Path) -> Result<Vec<Rule>> {
    let path = root.join(RULES);
    let file = yaml::read(&path)?;
    let groups = file["groups"].as_array().into_iter().flatten();
    let rules: Vec<Rule> = groups
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .map(rule)
        .collect::<Result<_>>()?;
    if rules.is_empty() {
        bail!("no rules in {}", path.display());
    }
    Ok(rules)
}

fn rule(value: &Value) -> Result<Rule> {
    let text = |field: &str| value[field].as_str();
    let (Some(name), Some(expression)) = (text("alert").or(text("record")), text("expr")) else {
        bail!("neither an alert nor a record: {value}");
    };
    let parts =
        promql::parts(expression).map_err(|error| anyhow!("expression of {name}: {error}"))?;
    Ok(Rule {
        name: name.to_owned(),
        is_alert: text("alert").is_some(),
        expression: expression.to_owned(),
        parts,
        value: value.clone(),
    })
}

fn test_files(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(TESTS);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.rsplit_once('.').is_some_and(|(_, end)| end == "yml"))
        .map(|name| format!("{TESTS}/{name}"))
        .collect();
    files.sort();
    Ok(files)
}

/// Reads the tests of all files.
pub(crate) fn tests(root: &Path) -> Result<Vec<Value>> {
    let mut tests = Vec::new();
    for file in test_files(root)? {
        let read = yaml::read(&root.join(&file))?;
        tests.extend(read["tests"].as_array().cloned().unwrap_or_default());
    }
    Ok(tests)
}

/// The part of the rules and tests that shows the effect of one rule; fast enough to run often.
#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    /// In the order of the file.
    pub(crate) rules: Vec<Rule>,
    /// Without expectations about other alerts. Empty if the rule has no test.
    pub(crate) tests: Vec<Value>,
}

impl Excerpt {
    /// The tests that name the rule or a rule that reads it, and the rules that these need.
    pub(crate) fn about(rule: &Rule, rules: &[Rule], tests: &[Value]) -> Excerpt {
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
            rules: rules.iter().filter(is_needed).cloned().collect(),
        }
    }

    /// Keeps only the tests that simulate at most an hour.
    pub(crate) fn short(&self) -> Excerpt {
        let is_short = |entry: &Value| {
            let time = entry["eval_time"].as_str();
            let minutes = time.and_then(|time| time.strip_suffix('m')?.parse::<u32>().ok());
            minutes.is_some_and(|minutes| minutes <= 60)
        };
        let mut short = self.clone();
        short.tests.retain(|test| {
            let mut entries = ["alert_rule_test", "promql_expr_test"]
                .iter()
                .filter_map(|field| test[*field].as_array())
                .flatten();
            entries.all(is_short)
        });
        short
    }

    /// The file of rules, with one rule replaced.
    pub(crate) fn rules_with(&self, changed: &Rule) -> Value {
        let rules: Vec<&Value> = self
            .rules
            .iter()
            .map(|rule| {
                if rule.name == changed.name {
                    &changed.value
                } else {
                    &rule.value
                }
            })
            .collect();
        json!({"groups": [{"name": "excerpt", "rules": rules}]})
    }

    /// The file of tests.
    pub(crate) fn tests_of(&self, rules: &str) -> Value {
        json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": self.tests})
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

    use super::{Excerpt, rule};

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
            json!({"alert_rule_test": [{"alertname": "B", "eval_time": "60m"}]}),
            json!({"alert_rule_test": [{"alertname": "B", "eval_time": "61m"}]}),
        ];
        let excerpt = Excerpt::about(&rules[3], &rules, &tests);
        assert_eq!((excerpt.tests.len(), excerpt.short().tests.len()), (3, 1));

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
