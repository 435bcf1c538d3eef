//! Consistency of the rules, their tests, the runbooks, the dashboards and the metric catalogue.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redrive::metrics::{CATALOGUE, Metric, MetricKind};
use regex::Regex;

use super::rules::{RULES, Rule, rules, scenarios, tests};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn alerts() -> Vec<Rule> {
    let rules = rules(&root()).expect("the rules").into_iter();
    rules.filter(|rule| rule.is_alert).collect()
}

/// Returns the metric of a series. A histogram has three series.
fn metric(series: &str) -> Option<&'static Metric> {
    let named = |name: &str| CATALOGUE.iter().find(|metric| metric.name == name);
    named(series).or_else(|| {
        let histogram = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| named(series.strip_suffix(end)?))?;
        matches!(histogram.kind, MetricKind::Histogram(_)).then_some(histogram)
    })
}

#[test]
fn every_alert_has_its_annotations() {
    for rule in alerts() {
        let name = &rule.name;
        assert!(name.starts_with("Redrive"), "{name}");
        assert!(["critical", "warning"].contains(&rule.severity()), "{name}");
        assert!(!rule.text("for").is_empty(), "{name} has no `for`");
        let said = |annotation: &str| rule.annotation(annotation).to_owned();
        assert!(said("summary").ends_with('.'), "{name}: a sentence");
        assert!(said("description").ends_with('.'), "{name}: sentences");
        assert_eq!(
            said("runbook_url"),
            format!("alerts/runbooks.md#{}", name.to_lowercase())
        );
    }
}

#[test]
fn alerts_and_runbook_sections_match() {
    let runbooks = fs::read_to_string(root().join("alerts/runbooks.md")).expect("runbooks");
    let sections: Vec<&str> = runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let names: Vec<String> = alerts().into_iter().map(|rule| rule.name).collect();
    assert_eq!(sections, names, "in the same order");
    for section in runbooks.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap_or_default();
        for part in ["\n1. ", "\n2. ", "\n3. ", "\nFalse alarm: "] {
            assert!(section.contains(part), "{name} has no `{}`", part.trim());
        }
        for word in section.split(|c: char| !c.is_ascii_alphanumeric()) {
            assert!(
                !is_alert(word) || names.iter().any(|name| name == word),
                "no alert {word}"
            );
        }
    }
}

#[test]
fn every_bucket_in_the_rules_is_one_of_its_histogram() {
    let bucket = Regex::new(r#"(redrive_\w+)_bucket\{[^}]*le=~?"([^"]+)""#).expect("a pattern");
    let text = fs::read_to_string(root().join(RULES)).expect("the rules");
    let buckets: Vec<_> = bucket.captures_iter(&text).collect();
    assert!(!buckets.is_empty(), "no bucket");
    for found in buckets {
        let Some(MetricKind::Histogram(bounds)) = metric(&found[1]).map(|metric| metric.kind)
        else {
            panic!("no histogram {}", &found[1]);
        };
        // Prometheus 2 and 3 format bounds differently.
        for bound in found[2].split('|') {
            let bound: f64 = bound.parse().expect("a number");
            assert!(bounds.contains(&bound), "{} has no {bound}", &found[1]);
        }
    }
}

#[test]
fn every_alert_fires_in_a_test() {
    let names: BTreeSet<String> = alerts().into_iter().map(|rule| rule.name).collect();
    let (mut firing, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    let mut tests = tests(&root()).expect("the tests");
    let scenarios = scenarios(&root()).expect("the scenarios");
    tests.extend(scenarios["tests"].as_array().expect("tests").clone());
    for test in tests {
        for entry in test["alert_rule_test"].as_array().into_iter().flatten() {
            let name = entry["alertname"].as_str().unwrap_or_default().to_owned();
            let alerts = entry["exp_alerts"].as_array().expect("what is expected");
            for alert in alerts {
                let says = &alert["exp_annotations"]["summary"];
                assert!(says.is_string(), "{name}: tests must check the summary");
            }
            let set = if alerts.is_empty() {
                &mut quiet
            } else {
                &mut firing
            };
            set.insert(name);
        }
        for series in test["input_series"].as_array().into_iter().flatten() {
            let series = series["series"].as_str().unwrap_or_default();
            let name = series.split('{').next().unwrap_or_default();
            assert!(
                series.contains("instance=\""),
                "{series}: without an instance, tests miss labels that do not match"
            );
            assert!(name == "up" || metric(name).is_some(), "no metric {name}");
        }
    }
    assert_eq!(firing, names, "fire in a test");
    // Some alerts have their quiet case in a query.
    assert!(quiet.is_subset(&names));
}

/// Whether a word looks like an alert, unlike `Redriven`.
fn is_alert(word: &str) -> bool {
    let rest = word.strip_prefix("Redrive").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_uppercase())
}

#[test]
fn dashboards_name_existing_metrics_and_alerts() {
    let alerts = alerts();
    let folder = fs::read_dir(root().join("grafana")).expect("the dashboards");
    let files = folder.flatten().map(|entry| entry.path());
    let dashboards: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| fs::read_to_string(&path).expect("a dashboard"))
        .collect();
    assert_eq!(dashboards.len(), 4);
    for word in dashboards
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
    {
        let is_metric = word.starts_with("redrive_") && word != "redrive_";
        assert!(!is_metric || metric(word).is_some(), "no metric {word}");
        let is_known = alerts.iter().any(|rule| rule.name == word);
        assert!(!is_alert(word) || is_known, "no alert {word}");
    }
    for rule in alerts {
        let link = rule.annotation("dashboard_url").to_owned();
        let uid = link
            .strip_prefix("/d/")
            .and_then(|path| path.split('?').next())
            .unwrap_or("none: the link does not begin with /d/");
        let uid = format!("\"uid\": \"{uid}\"");
        let is_there = dashboards.iter().any(|text| text.contains(&uid));
        assert!(is_there, "{}: no dashboard with {uid}", rule.name);
    }
}
