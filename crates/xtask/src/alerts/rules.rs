//! The alert rules and their tests, read from their files.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::yaml;

/// The rules, below the root of the repository.
pub(crate) const RULES: &str = "alerts/redrive.rules.yml";
/// The tests of all rules together.
const SCENARIOS: &str = "alerts/scenarios.yml";
/// The folder of the tests of single rules.
const TESTS: &str = "alerts/tests";

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
}

/// Returns the words of a text. The metrics and recorded series of an expression are among them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
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

/// Reads the tests of single rules.
pub(super) fn tests(root: &Path) -> Result<Vec<Value>> {
    let folder = root.join(TESTS);
    let files =
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut tests = Vec::new();
    for file in files {
        let file = yaml::read(&file?.path())?;
        tests.extend(file["tests"].as_array().cloned().unwrap_or_default());
    }
    Ok(tests)
}

/// Reads the tests of all rules together, as promtool reads them.
pub(super) fn scenarios(root: &Path) -> Result<Value> {
    let mut file = yaml::read(&root.join(SCENARIOS))?;
    file["tests"] = Value::Array(tests_of(&file)?);
    file["rule_files"] = json!([root.join(RULES)]);
    Ok(file)
}

/// Returns the tests of a file. One that is `like` another one also has the series of that one that it does not list.
fn tests_of(file: &Value) -> Result<Vec<Value>> {
    let tests = file["tests"].as_array().map_or(&[][..], Vec::as_slice);
    let whole = |test: &Value| {
        let mut test = test.clone();
        let like = test.as_object_mut().and_then(|test| test.remove("like"));
        let Some(like) = like else {
            return Ok(test);
        };
        let other = tests.iter().find(|other| other["name"] == like);
        let other = other.with_context(|| format!("no test has the name {like}"))?;
        let list = |test: &Value| test["input_series"].as_array().cloned().unwrap_or_default();
        let mut series = list(&test);
        let mut inherited = list(other);
        inherited.retain(|one| series.iter().all(|own| own["series"] != one["series"]));
        series.append(&mut inherited);
        test["input_series"] = Value::Array(series);
        Ok(test)
    };
    tests.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tests_of;

    #[test]
    fn a_test_that_is_like_another_one_has_its_series() {
        let of = |name: &str, value: &str| json!({"series": name, "values": value});
        let file = json!({"tests": [
            {"name": "well", "input_series": [of("a", "1"), of("b", "2")]},
            {"name": "ill", "like": "well", "input_series": [of("b", "3")]},
            {"name": "apart", "input_series": []},
        ]});
        let tests = tests_of(&file).expect("the tests");
        let ill = json!({"name": "ill", "input_series": [of("b", "3"), of("a", "1")]});
        assert_eq!(tests[1], ill);
        assert_eq!(tests[2], file["tests"][2]);
        tests_of(&json!({"tests": [{"name": "x", "like": "y"}]})).expect_err("no such test");
    }
}
