//! Consistency of the rules, their tests, the runbooks, the dashboards and the metric catalogue.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each test matches a few kinds of tokens"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use redrive::metrics::{CATALOGUE, Metric, MetricKind};

use super::promql::{self, Matcher, Part, Placed};
use super::rules::{Rule, rules, tests};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn all_rules() -> Vec<Rule> {
    rules(&root()).expect("the rules")
}

pub(super) fn alerts() -> Vec<Rule> {
    all_rules()
        .into_iter()
        .filter(|rule| rule.is_alert)
        .collect()
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

/// Returns the labels of a series with their possible values. An empty list allows any value.
fn labels(
    series: &str,
    recorded: &BTreeMap<String, Vec<String>>,
) -> Option<BTreeMap<String, Vec<String>>> {
    if let Some(labels) = recorded.get(series) {
        return Some(
            labels
                .iter()
                .map(|label| (label.clone(), Vec::new()))
                .collect(),
        );
    }
    let mut found: BTreeMap<String, Vec<String>> = ["job", "instance"]
        .iter()
        .map(|&target| (target.to_owned(), Vec::new()))
        .collect();
    if series != "up" {
        let metric = metric(series)?;
        for label in metric.labels {
            let values = label.values.iter().map(|&value| value.to_owned());
            found.insert(label.name.to_owned(), values.collect());
        }
        if let (MetricKind::Histogram(bounds), true) = (metric.kind, series.ends_with("_bucket")) {
            // Prometheus 2 and 3 format bounds differently.
            let values = bounds
                .iter()
                .flat_map(|bound| [format!("{bound}"), format!("{bound:.1}")]);
            found.insert("le".to_owned(), values.collect());
        }
    }
    Some(found)
}

/// Returns the labels of each recorded series: those that its first aggregation keeps.
fn recorded(rules: &[Rule]) -> BTreeMap<String, Vec<String>> {
    let mut recorded = BTreeMap::new();
    for rule in rules.iter().filter(|rule| !rule.is_alert) {
        let kept = rule.parts.iter().find_map(|placed| match &placed.part {
            Part::Grouping(word, labels) if word == "by" => Some(labels.clone()),
            Part::Selector(name, _) => recorded.get(name).cloned(),
            _ => None,
        });
        recorded.insert(rule.name.clone(), kept.expect("an aggregation"));
    }
    recorded
}

/// Returns the series that a grouping applies to: those in the parentheses after it, or the next.
fn concerned(parts: &[Placed], at: usize) -> Vec<&str> {
    let mut depth = 0;
    let mut has_series = false;
    let mut end = at + 1;
    for (number, placed) in parts.iter().enumerate().skip(at + 1) {
        match placed.part {
            Part::Open => depth += 1,
            Part::Close => depth -= 1,
            Part::Selector(..) => has_series = true,
            _ => {}
        }
        end = number + 1;
        if depth == 0 && has_series {
            break;
        }
    }
    parts[at + 1..end]
        .iter()
        .filter_map(|placed| match &placed.part {
            Part::Selector(name, _) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_series_and_label_in_the_rules_is_in_the_catalogue() {
    let rules = all_rules();
    let recorded = recorded(&rules);
    let known = |series: &str, rule: &Rule| {
        labels(series, &recorded).unwrap_or_else(|| panic!("{}: no metric {series}", rule.name))
    };
    for rule in &rules {
        for (at, placed) in rule.parts.iter().enumerate() {
            match &placed.part {
                Part::Selector(series, matchers) => {
                    let known = known(series, rule);
                    for matcher in matchers {
                        is_possible(rule, series, matcher, &known);
                    }
                }
                Part::Grouping(_, grouped) => {
                    let concerned = concerned(&rule.parts, at);
                    assert!(
                        !concerned.is_empty(),
                        "{}: a grouping without a series",
                        rule.name
                    );
                    for series in concerned {
                        for label in grouped {
                            assert!(
                                known(series, rule).contains_key(label),
                                "{}: {series} has no label {label}",
                                rule.name
                            );
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_possible(
    rule: &Rule,
    series: &str,
    matcher: &Matcher,
    known: &BTreeMap<String, Vec<String>>,
) {
    let name = &rule.name;
    let values = known
        .get(&matcher.label)
        .unwrap_or_else(|| panic!("{name}: {series} has no label {}", matcher.label));
    for value in matcher.values() {
        assert!(
            values.is_empty() || values.iter().any(|known| known == value),
            "{name}: the label {} of {series} is never {value}",
            matcher.label
        );
    }
}

#[test]
fn counters_are_read_through_rates_and_gauges_directly_or_over_time() {
    for rule in all_rules() {
        let parts: Vec<&Part> = rule.parts.iter().map(|placed| &placed.part).collect();
        for (at, part) in parts.iter().enumerate() {
            let Part::Selector(series, _) = part else {
                continue;
            };
            let has_window = matches!(parts.get(at + 1), Some(Part::Window(_)));
            let before = &rule.text("expr")[..rule.parts[at].bytes.start];
            let is_over_time = ["max_over_time(", "avg_over_time(", "delta("]
                .iter()
                .any(|function| before.ends_with(function));
            let is_rated = has_window && !is_over_time;
            let is_counter = metric(series).is_some_and(|metric| metric.kind != MetricKind::Gauge);
            assert_eq!(is_rated, is_counter, "{}: {series}", rule.name);
        }
    }
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
fn every_alert_fires_in_a_test() {
    let names: BTreeSet<String> = alerts().into_iter().map(|rule| rule.name).collect();
    let (mut firing, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for test in tests(&root()).expect("the tests") {
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
            let name = promql::parts(series).expect("a series");
            assert!(
                series.contains("instance=\""),
                "{series}: without an instance, tests miss labels that do not match"
            );
            let Some(Part::Selector(name, _)) = name.first().map(|placed| &placed.part) else {
                panic!("no series: {series}");
            };
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

/// Returns the texts of the dashboards by file.
fn dashboards() -> BTreeMap<String, String> {
    let folder = fs::read_dir(root().join("grafana")).expect("the dashboards");
    let files = folder.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (
                name.into_owned(),
                fs::read_to_string(&path).expect("a dashboard"),
            )
        })
        .collect()
}

/// Returns the words of a text with a prefix.
fn words<'a>(text: &'a str, begin: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(move |word| word.starts_with(begin) && word.len() > begin.len())
}

#[test]
fn dashboards_name_existing_metrics_and_alerts() {
    let names: BTreeSet<String> = alerts().into_iter().map(|rule| rule.name).collect();
    let dashboards = dashboards();
    assert_eq!(dashboards.len(), 4);
    for (file, text) in &dashboards {
        for word in words(text, "redrive_") {
            assert!(metric(word).is_some(), "{file}: no metric {word}");
        }
        for word in words(text, "Redrive").filter(|word| is_alert(word)) {
            assert!(names.contains(word), "{file}: no alert {word}");
        }
    }
    for rule in alerts() {
        let link = rule.annotation("dashboard_url").to_owned();
        let uid = link
            .strip_prefix("/d/")
            .and_then(|path| path.split('?').next())
            .unwrap_or("none: the link does not begin with /d/");
        let uid = format!("\"uid\": \"{uid}\"");
        let is_there = dashboards.values().any(|text| text.contains(&uid));
        assert!(is_there, "{}: no dashboard with {uid}", rule.name);
    }
}

#[test]
fn every_metric_is_on_a_panel_or_in_an_alert() {
    let texts: String = dashboards().into_values().collect();
    let rules = all_rules();
    let shown: BTreeSet<&str> = words(&texts, "redrive_")
        .chain(rules.iter().flat_map(Rule::reads))
        .filter_map(|series| Some(metric(series)?.name))
        .collect();
    let unused: Vec<&str> = CATALOGUE
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !shown.contains(name))
        .collect();
    assert!(
        unused.is_empty(),
        "metrics without a panel or alert: {unused:#?}"
    );
}
