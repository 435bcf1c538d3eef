//! The alert rules and their tests, read from their files.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

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

    /// Returns the words of the expression. Its metrics and recorded series are among them.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &str> {
        let is_between = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':';
        self.text("expr").split(is_between)
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

pub(super) fn rule(value: &Value) -> Result<Rule> {
    let text = |field: &str| value[field].as_str();
    let (Some(name), Some(_)) = (text("alert").or(text("record")), text("expr")) else {
        bail!("neither an alert nor a record: {value}");
    };
    Ok(Rule {
        name: name.to_owned(),
        is_alert: text("alert").is_some(),
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
