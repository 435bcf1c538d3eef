//! The example configuration of Alertmanager: which alerts its inhibition rules silence.

use regex::Regex;
use serde_json::Value;

use super::consistency::{alerts, root};
use super::rules::Rule;
use super::yaml;

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

/// An inhibition rule: an alert of `sources` silences those of `targets` with equal labels.
struct Inhibition {
    sources: Vec<Rule>,
    targets: Vec<Rule>,
    equal: Vec<String>,
}

impl Inhibition {
    /// As in Alertmanager: an alert on both sides is not silenced by another such alert.
    fn silences(&self, source: &str, target: &str) -> bool {
        let is = |rules: &[Rule], name: &str| rules.iter().any(|rule| rule.name == name);
        let is_peer = is(&self.sources, target) && is(&self.targets, source);
        is(&self.sources, source) && is(&self.targets, target) && !is_peer
    }
}

fn configuration() -> Value {
    yaml::read(&root().join("alerts/alertmanager.yml")).expect("the configuration")
}

fn inhibitions() -> Vec<Inhibition> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).expect("a list of texts")
    };
    let rules = |rule: &Value, field: &str| {
        let matchers = texts(rule, field);
        let mut matching = alerts();
        matching.retain(|alert| matchers.iter().all(|text| matches(text, &alert.name)));
        matching
    };
    let inhibition = |rule| Inhibition {
        sources: rules(rule, "source_matchers"),
        targets: rules(rule, "target_matchers"),
        equal: texts(rule, "equal"),
    };
    let configuration = configuration();
    let all = configuration["inhibit_rules"].as_array().expect("rules");
    all.iter().map(inhibition).collect()
}

/// Whether a matcher selects an alert. All matchers are about names, which have no special characters.
fn matches(matcher: &str, name: &str) -> bool {
    let words: Vec<&str> = matcher.splitn(3, ' ').collect();
    let ["alertname", operator, value] = words[..] else {
        panic!("no matcher of names: {matcher}");
    };
    let pattern = Regex::new(&format!("^(?:{})$", value.trim_matches('"'))).expect("a pattern");
    pattern.is_match(name) != operator.starts_with('!')
}

/// Returns the alerts that are notified while these fire, with equal labels.
fn notified<'a>(inhibitions: &[Inhibition], firing: &[&'a str]) -> Vec<&'a str> {
    let is_silenced = |name: &str| {
        let mut others = firing.iter().filter(|source| **source != name);
        others.any(|source| inhibitions.iter().any(|rule| rule.silences(source, name)))
    };
    let loud = firing.iter().filter(|name| !is_silenced(name));
    loud.copied().collect()
}

#[test]
fn one_cause_notifies_once() {
    let inhibitions = inhibitions();
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
        assert_eq!(notified(&inhibitions, &firing), expected, "{line}");
    }
}

#[test]
fn alerts_of_other_queues_and_databases_are_not_silenced() {
    for rule in inhibitions() {
        // A summary names the labels of its alert.
        let has = |alert: &Rule, label: &str| {
            let summary = alert.annotation("summary");
            summary.contains(&format!("$labels.{label} "))
        };
        let all = || rule.sources.iter().chain(&rule.targets);
        let common = ["queue", "table"].into_iter();
        let common = common.filter(|label| all().all(|alert| has(alert, label)));
        let expected: Vec<&str> = ["job"].into_iter().chain(common).collect();
        assert_eq!(rule.equal, expected, "{}", rule.sources[0].name);
    }
}

#[test]
fn every_name_exists_and_no_two_alerts_silence_each_other() {
    let (inhibitions, alerts) = (inhibitions(), alerts());
    let names: Vec<&str> = alerts.iter().map(|rule| &*rule.name).collect();
    let text = configuration().to_string();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| word.starts_with("Redrive") && *word != "Redrive") {
        assert!(names.contains(&word), "no alert {word}");
    }
    for one in &names {
        for other in names.iter().filter(|other| *other != one) {
            let pair = [*one, *other];
            let notified = notified(&inhibitions, &pair);
            assert!(!notified.is_empty(), "{pair:?} silence each other");
        }
    }
}
