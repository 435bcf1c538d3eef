//! Tests that the rules, their tests, the runbooks and the catalogue of metrics tell of the same.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a test is about some parts of an expression"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use redrive::metrics::{CATALOGUE, Metric, MetricKind};

use super::promql::{self, Matcher, Part, Placed};
use super::rules::{Rule, rules, tests};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn all_rules() -> Vec<Rule> {
    rules(&root()).expect("the rules")
}

fn alerts() -> Vec<Rule> {
    all_rules()
        .into_iter()
        .filter(|rule| rule.is_alert)
        .collect()
}

/// The metric of a series: of a histogram there are three.
fn metric(series: &str) -> Option<&'static Metric> {
    let named = |name: &str| CATALOGUE.iter().find(|metric| metric.name == name);
    named(series).or_else(|| {
        let histogram = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| named(series.strip_suffix(end)?))?;
        matches!(histogram.kind, MetricKind::Histogram(_)).then_some(histogram)
    })
}

/// The labels of a series, with the values that they can have; empty: any.
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
            // As Prometheus 2 and as Prometheus 3 writes a bound.
            let values = bounds
                .iter()
                .flat_map(|bound| [format!("{bound}"), format!("{bound:.1}")]);
            found.insert("le".to_owned(), values.collect());
        }
    }
    Some(found)
}

/// The labels that each recorded series has: those that its first aggregation keeps.
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

/// The series that a grouping is about: those in the parentheses behind it, or the next one.
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
                        "{}: a grouping of nothing",
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
fn counters_are_looked_at_through_rates_and_gauges_never() {
    for rule in all_rules() {
        let parts: Vec<&Part> = rule.parts.iter().map(|placed| &placed.part).collect();
        for (at, part) in parts.iter().enumerate() {
            let Part::Selector(series, _) = part else {
                continue;
            };
            let is_rated = matches!(parts.get(at + 1), Some(Part::Window(_)));
            let is_counter = metric(series).is_some_and(|metric| metric.kind != MetricKind::Gauge);
            assert_eq!(is_rated, is_counter, "{}: {series}", rule.name);
        }
    }
}

#[test]
fn every_alert_says_what_it_should() {
    for rule in alerts() {
        let name = &rule.name;
        assert!(name.starts_with("Redrive"), "{name}");
        assert!(["critical", "warning"].contains(&rule.severity()), "{name}");
        assert!(!rule.text("for").is_empty(), "{name} says nothing of `for`");
        let said = |annotation: &str| rule.annotation(annotation).to_owned();
        assert!(said("summary").ends_with('.'), "{name}: a sentence");
        assert!(said("description").ends_with('.'), "{name}: sentences");
        assert_eq!(
            said("runbook_url"),
            format!("alerts/runbooks.md#{}", name.to_lowercase())
        );
        let dashboards = ["overview", "queue", "dead-letters", "postgres"];
        let dashboard = said("dashboard_url");
        let dashboard = dashboard.strip_prefix("/d/redrive-").unwrap_or_default();
        let dashboard = dashboard.split('?').next().unwrap_or_default();
        assert!(dashboards.contains(&dashboard), "{name}: {dashboard}");
    }
}

#[test]
fn every_alert_has_a_section_and_the_other_way_round() {
    let runbooks = fs::read_to_string(root().join("alerts/runbooks.md")).expect("runbooks");
    let sections: Vec<&str> = runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let names: Vec<String> = alerts().into_iter().map(|rule| rule.name).collect();
    assert_eq!(sections, names, "in one order, too");
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
fn every_alert_has_tests_in_which_it_fires_and_tests_in_which_it_does_not() {
    let names: BTreeSet<String> = alerts().into_iter().map(|rule| rule.name).collect();
    let (mut firing, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for test in tests(&root()).expect("the tests") {
        for entry in test["alert_rule_test"].as_array().into_iter().flatten() {
            let name = entry["alertname"].as_str().unwrap_or_default().to_owned();
            let alerts = entry["exp_alerts"].as_array().expect("what is expected");
            for alert in alerts {
                let says = &alert["exp_annotations"]["summary"];
                assert!(says.is_string(), "{name}: the words of it are tested");
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
                "{series}: without it, labels that do not match would not be noticed"
            );
            let Some(Part::Selector(name, _)) = name.first().map(|placed| &placed.part) else {
                panic!("no series: {series}");
            };
            assert!(name == "up" || metric(name).is_some(), "no metric {name}");
        }
    }
    assert_eq!(firing, names, "fire in a test");
    // Those of which the quiet case is told by a query for the firing ones.
    assert!(quiet.is_subset(&names));
}

/// Whether it looks like the name of an alert, unlike `Redriven`.
fn is_alert(word: &str) -> bool {
    let rest = word.strip_prefix("Redrive").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The texts of the dashboards, by their files.
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

/// The words of a text that begin so.
fn words<'a>(text: &'a str, begin: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(move |word| word.starts_with(begin) && word.len() > begin.len())
}

#[test]
fn dashboards_name_metrics_and_alerts_that_there_are() {
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
            .trim_start_matches("/d/")
            .split('?')
            .next()
            .unwrap_or_default();
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
    assert!(unused.is_empty(), "nobody looks at {unused:#?}");
}
