//! Files that are generated from the alert rules.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use regex::Regex;

use super::{Generated, between};
use crate::alerts::rules::{RULES, Rule, rules};

/// The same rules, for the Prometheus operator.
const MANIFEST: &str = "crates/redrive-exporter/deploy/prometheus-rule.yaml";
/// Has a table of all alerts.
const README: &str = "alerts/README.md";
const MARKS: (&str, &str) = (
    "<!-- alerts: written by `cargo xtask generate` -->\n",
    "<!-- end of alerts -->\n",
);

/// Returns the manifest, and the README with its table.
pub(super) fn generated(root: &Path) -> Result<[Generated; 2]> {
    let text = fs::read_to_string(root.join(RULES));
    let manifest = manifest(&text.with_context(|| format!("cannot read {RULES}"))?);
    Ok([
        Generated {
            file: MANIFEST,
            text: manifest,
        },
        between(root, README, MARKS, &table(&rules(root)?)?)?,
    ])
}

/// The rules, indented below the header that the Prometheus operator expects.
fn manifest(rules: &str) -> String {
    let mut text = format!(
        "# Generated from {RULES} by `cargo xtask generate`.\n\
         apiVersion: monitoring.coreos.com/v1\n\
         kind: PrometheusRule\n\
         metadata:\n  \
           name: redrive\n  \
           labels:\n    \
             app.kubernetes.io/name: redrive-exporter\n\
         spec:\n"
    );
    for line in rules.lines() {
        if !line.is_empty() {
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// One line per alert, with an ellipsis for each placeholder of a summary.
fn table(rules: &[Rule]) -> Result<String> {
    let placeholder = Regex::new(r"\{\{.*?\}\}")?;
    let line = |rule: &Rule| {
        let after = match rule.text("for") {
            "0s" => "at once",
            duration => duration,
        };
        let (name, anchor) = (&rule.name, rule.name.to_lowercase());
        let (severity, summary) = (rule.severity(), rule.annotation("summary"));
        format!(
            "| [{name}](runbooks.md#{anchor}) | {severity} | {after} | {} |\n",
            placeholder.replace_all(summary, "…")
        )
    };
    let alerts = rules.iter().filter(|rule| rule.is_alert);
    let head = "| Alert | Severity | After | Summary |\n|---|---|---|---|\n";
    Ok(head.to_owned() + &alerts.map(line).collect::<String>())
}
