//! The example configuration of Alertmanager: which alerts its inhibition rules silence.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::consistency::{alerts, root};
use super::rules::Rule;
use super::yaml;

const CONFIGURATION: &str = "alerts/alertmanager.yml";

/// Which of the alerts that fire together are notified. The last line has different causes.
const NOTIFIED: &str = "\
    DatabaseUnreachable QueueStalled NoWorkers XidAgeHigh => DatabaseUnreachable
    MetricsUntrusted DlqSpike SchemaMismatch TableBloated => MetricsUntrusted
    DatabaseUnreachable ExporterDown => DatabaseUnreachable ExporterDown
    NoWorkers QueueLatencyHigh LatencyBudgetBurn BacklogNotDraining => NoWorkers
    QueueStalled LatencyBudgetBurn ProcessingTooLong => QueueStalled ProcessingTooLong
    DlqSpike DeadLetterBudgetBurnFast DeadLetterBudgetBurnSlow => DlqSpike
    DeadLetterBudgetBurnFast DeadLetterBudgetBurnSlow => DeadLetterBudgetBurnFast
    LatencyBudgetBurn QueueLatencyHigh QueueStarved => LatencyBudgetBurn QueueStarved
    VacuumBlockedByHorizon DeadRowsNotVacuumed TableBloated => VacuumBlockedByHorizon TableBloated
    DlqUnattended DlqWaiting => DlqUnattended
    NoWorkers DlqSpike LeasesNotReaped => NoWorkers DlqSpike LeasesNotReaped";

type Labels = BTreeMap<String, String>;

/// An inhibition rule: a firing alert that matches `source` silences those that match `target`.
struct Inhibition {
    source: Vec<LabelPattern>,
    target: Vec<LabelPattern>,
    equal: Vec<String>,
}

struct LabelPattern {
    label: String,
    is_negative: bool,
    pattern: Regex,
}

impl LabelPattern {
    fn new(text: &str) -> LabelPattern {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().expect("label, operator and value");
        let (label, operator) = (word(), word());
        let value = word().trim_matches('"');
        let pattern = match operator {
            "=" | "!=" => regex::escape(value),
            "=~" | "!~" => value.to_owned(),
            _ => panic!("no operator: {text}"),
        };
        LabelPattern {
            label: label.to_owned(),
            is_negative: operator.starts_with('!'),
            pattern: Regex::new(&format!("^(?:{pattern})$")).expect("a pattern"),
        }
    }

    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.label).map_or("", String::as_str);
        self.pattern.is_match(value) != self.is_negative
    }
}

fn matches(matchers: &[LabelPattern], labels: &Labels) -> bool {
    matchers.iter().all(|matcher| matcher.matches(labels))
}

impl Inhibition {
    /// As in Alertmanager: an alert that matches both sides is not silenced by another such alert,
    /// and two missing labels are equal.
    fn silences(&self, source: &Labels, target: &Labels) -> bool {
        let is_peer = matches(&self.source, target) && matches(&self.target, source);
        matches(&self.source, source)
            && matches(&self.target, target)
            && !is_peer
            && self
                .equal
                .iter()
                .all(|label| source.get(label) == target.get(label))
    }
}

fn configuration() -> Value {
    yaml::read(&root().join(CONFIGURATION)).expect("the configuration")
}

fn inhibitions() -> Vec<Inhibition> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).expect("a list of texts")
    };
    let matchers = |rule: &Value, field: &str| {
        let texts = texts(rule, field);
        texts.iter().map(|text| LabelPattern::new(text)).collect()
    };
    let configuration = configuration();
    let rules = configuration["inhibit_rules"].as_array().expect("rules");
    let inhibition = |rule| Inhibition {
        source: matchers(rule, "source_matchers"),
        target: matchers(rule, "target_matchers"),
        equal: texts(rule, "equal"),
    };
    rules.iter().map(inhibition).collect()
}

/// Returns the labels of an alert of one queue, table and instance, as its rule aggregates them.
fn labels(rule: &Rule) -> Labels {
    let mut labels = Labels::from([
        ("alertname".to_owned(), rule.name.clone()),
        ("severity".to_owned(), rule.severity().to_owned()),
    ]);
    if rule.name != "RedriveExporterAbsent" {
        labels.insert("job".to_owned(), "redrive".to_owned());
    }
    for label in ["queue", "table", "instance"] {
        if rule
            .annotation("summary")
            .contains(&format!("$labels.{label} "))
        {
            labels.insert(label.to_owned(), "x".to_owned());
        }
    }
    labels
}

/// The rules of the configuration and the labels of each alert, read once.
struct Alertmanager {
    alerts: BTreeMap<String, Labels>,
    inhibitions: Vec<Inhibition>,
}

impl Alertmanager {
    fn new() -> Alertmanager {
        let alerts = alerts();
        let labels = alerts.iter().map(|rule| (rule.name.clone(), labels(rule)));
        Alertmanager {
            alerts: labels.collect(),
            inhibitions: inhibitions(),
        }
    }

    fn silences(&self, source: &Labels, target: &Labels) -> bool {
        self.inhibitions
            .iter()
            .any(|rule| rule.silences(source, target))
    }

    /// Returns the alerts that are notified while these fire.
    fn notified<'a>(&self, firing: &[&'a str]) -> Vec<&'a str> {
        let is_silenced = |name: &str| {
            let mut others = firing.iter().filter(|source| **source != name);
            others.any(|source| self.silences(&self.alerts[*source], &self.alerts[name]))
        };
        let loud = firing.iter().filter(|name| !is_silenced(name));
        loud.copied().collect()
    }
}

#[test]
fn one_cause_notifies_once() {
    let alertmanager = Alertmanager::new();
    for line in NOTIFIED.lines() {
        let (firing, expected) = line.split_once(" => ").expect("an arrow");
        let alerts = |names: &str| -> Vec<String> {
            names
                .split_whitespace()
                .map(|name| format!("Redrive{name}"))
                .collect()
        };
        let (firing, expected) = (alerts(firing), alerts(expected));
        let firing: Vec<&str> = firing.iter().map(String::as_str).collect();
        assert_eq!(alertmanager.notified(&firing), expected, "{line}");
    }
}

#[test]
fn alerts_of_other_queues_and_databases_are_not_silenced() {
    let of = |name: &str, job: &str, queue: &str| {
        Labels::from([
            ("alertname".to_owned(), name.to_owned()),
            ("job".to_owned(), job.to_owned()),
            ("queue".to_owned(), queue.to_owned()),
            ("severity".to_owned(), "critical".to_owned()),
        ])
    };
    let alertmanager = Alertmanager::new();
    let silences = |source: &Labels, target: &Labels| alertmanager.silences(source, target);
    let away = of("RedriveDatabaseUnreachable", "redrive", "");
    assert!(silences(&away, &of("RedriveQueueStalled", "redrive", "a")));
    assert!(!silences(
        &away,
        &of("RedriveQueueStalled", "redrive-b", "a")
    ));
    let unmanned = of("RedriveNoWorkers", "redrive", "a");
    let late = |job, queue| of("RedriveLatencyBudgetBurn", job, queue);
    assert!(silences(&unmanned, &late("redrive", "a")));
    assert!(!silences(&unmanned, &late("redrive", "b")));
    assert!(!silences(&unmanned, &late("redrive-b", "a")));
}

#[test]
fn every_name_exists_and_no_two_alerts_silence_each_other() {
    let alertmanager = Alertmanager::new();
    let names: Vec<&str> = alertmanager.alerts.keys().map(String::as_str).collect();
    let text = configuration().to_string();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| word.starts_with("Redrive") && *word != "Redrive") {
        assert!(names.contains(&word), "no alert {word}");
    }
    for one in &names {
        for other in names.iter().filter(|other| *other != one) {
            let pair = [*one, *other];
            let notified = alertmanager.notified(&pair);
            assert!(!notified.is_empty(), "{pair:?} silence each other");
        }
    }
}
