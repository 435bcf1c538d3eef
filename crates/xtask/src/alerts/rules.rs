//! The rules and their tests, as they stand in the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::promql::{self, Part, Placed};
use super::yaml;
use crate::error::{During, Error, Result};

/// Where the rules are, from the root of the repository.
pub(crate) const RULES: &str = "alerts/redrive.rules.yml";
/// The tests that know all rules at once.
pub(crate) const SCENARIOS: &str = "alerts/tests/scenarios.tests.yml";
/// Where their tests are.
pub(crate) const TESTS: &str = "alerts/tests";

/// An alert or a recording rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The name of the alert, or of the series that is recorded.
    pub(crate) name: String,
    pub(crate) is_alert: bool,
    pub(crate) expression: String,
    pub(crate) parts: Vec<Placed>,
    /// All of it.
    pub(crate) value: Value,
}

impl Rule {
    /// A field that is text; empty when it is not there.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.value[field].as_str().unwrap_or_default()
    }

    /// `critical` or `warning`.
    pub(crate) fn severity(&self) -> &str {
        self.value["labels"]["severity"]
            .as_str()
            .unwrap_or_default()
    }

    pub(crate) fn annotation(&self, name: &str) -> &str {
        self.value["annotations"][name].as_str().unwrap_or_default()
    }

    /// The metrics and recorded series that it reads.
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

/// Reads the rules, in order.
pub(crate) fn rules(root: &Path) -> Result<Vec<Rule>> {
    let path = root.join(RULES);
    let file = yaml::read(&path)?;
    let groups = file["groups"].as_array().into_iter().flatten();
    let rules: Vec<Rule> = groups
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .map(rule)
        .collect::<Result<_>>()?;
    if rules.is_empty() {
        return Err(Error::new(format!("no rules in {}", path.display())));
    }
    Ok(rules)
}

fn rule(value: &Value) -> Result<Rule> {
    let text = |field: &str| value[field].as_str();
    let (Some(name), Some(expression)) = (text("alert").or(text("record")), text("expr")) else {
        return Err(Error::new(format!("no rule: {value}")));
    };
    let parts = promql::parts(expression)
        .map_err(|why| Error::new(format!("cannot read the expression of {name}: {why}")))?;
    Ok(Rule {
        name: name.to_owned(),
        is_alert: text("alert").is_some(),
        expression: expression.to_owned(),
        parts,
        value: value.clone(),
    })
}

/// The names of the files with tests.
fn test_files(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(TESTS);
    let entries = fs::read_dir(&folder).during(|| format!("cannot list {}", folder.display()))?;
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

/// A rule, what it is read by, and the tests that tell: small enough to be run often.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// The rule itself and all that it needs or that needs it, in order.
    pub(crate) rules: Vec<Rule>,
    /// The tests, with nothing in them about other alerts. Empty: nobody tests the rule.
    pub(crate) tests: Vec<Value>,
}

impl Excerpt {
    /// What tells about one of the rules by its name.
    pub(crate) fn of(rule: &Rule, rules: &[Rule], tests: &[Value]) -> Excerpt {
        Excerpt::telling(&BTreeSet::from([rule.name.as_str()]), rules, tests)
    }

    /// What tells about one of the rules, or about one that reads it.
    pub(crate) fn about(rule: &Rule, rules: &[Rule], tests: &[Value]) -> Excerpt {
        // Rules stand below those that they read.
        let mut told = BTreeSet::from([rule.name.as_str()]);
        for other in rules {
            if other.reads().any(|name| told.contains(name)) {
                told.insert(&other.name);
            }
        }
        Excerpt::telling(&told, rules, tests)
    }

    fn telling(told: &BTreeSet<&str>, rules: &[Rule], tests: &[Value]) -> Excerpt {
        let mut needed = told.clone();
        for other in rules.iter().rev() {
            if needed.contains(&*other.name) {
                needed.extend(other.reads());
            }
        }
        let rules: Vec<Rule> = rules
            .iter()
            .filter(|other| needed.contains(&*other.name))
            .cloned()
            .collect();
        let tests = tests.iter().filter_map(|test| cut(test, told, &needed));
        Excerpt {
            tests: tests.collect(),
            rules,
        }
    }

    /// With only the tests that are over within an hour of their time.
    pub(crate) fn quick(mut self) -> Excerpt {
        let is_short = |entry: &Value| {
            let time = entry["eval_time"]
                .as_str()
                .and_then(|time| time.strip_suffix('m'));
            time.and_then(|minutes| minutes.parse::<u32>().ok())
                .is_some_and(|minutes| minutes <= 60)
        };
        self.tests.retain(|test| {
            let entries = ["alert_rule_test", "promql_expr_test"];
            let mut entries = entries
                .iter()
                .filter_map(|field| test[*field].as_array())
                .flatten();
            entries.all(is_short)
        });
        self
    }

    /// The file of rules, with one of them in place of the one of its name.
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

/// A test with only what it says about these rules, from only the series that they need.
fn cut(test: &Value, told: &BTreeSet<&str>, needed: &BTreeSet<&str>) -> Option<Value> {
    let list = |field: &str| test[field].as_array().cloned().unwrap_or_default();
    let mut alerts = list("alert_rule_test");
    alerts.retain(|entry| {
        entry["alertname"]
            .as_str()
            .is_some_and(|name| told.contains(name))
    });
    let mut queries = list("promql_expr_test");
    queries.retain(|entry| {
        let query = entry["expr"].as_str().unwrap_or_default();
        told.iter().any(|name| {
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
    fn an_excerpt_has_what_the_rule_needs_and_what_needs_it() {
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
        let excerpt = Excerpt::of(&rules[1], &rules, &tests);
        let names: Vec<&str> = excerpt.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!((&*names, excerpt.tests.len()), (&["r:b"][..], 1));

        let excerpt = Excerpt::of(&rules[3], &rules, &tests);
        assert_eq!((excerpt.tests.len(), excerpt.quick().tests.len()), (3, 1));

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

        let names: Vec<String> = Excerpt::about(&rules[2], &rules, &tests)
            .rules
            .into_iter()
            .map(|rule| rule.name)
            .collect();
        assert_eq!(names, ["r:a", "A"], "what it reads comes along");
    }
}
