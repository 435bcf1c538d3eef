//! Files that are made from the rules, and must be what would be made from them now.

use std::fs;
use std::path::Path;

use super::rules::{RULES, Rule, rules};
use crate::error::{During, Error, Result};

/// The same rules, for the Prometheus operator.
const MANIFEST: &str = "crates/redrive-exporter/deploy/prometheus-rule.yaml";
/// It has a table of all alerts.
const README: &str = "alerts/README.md";
const BEGIN: &str = "<!-- alerts: written by `cargo xtask alerts` -->\n";
const END: &str = "<!-- end of alerts -->\n";

/// Writes them.
pub(super) fn write(root: &Path) -> Result<()> {
    for (file, text) in made(root)? {
        let path = root.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).during(|| format!("cannot make {}", folder.display()))?;
        }
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            println!("    {file}");
            fs::write(&path, text).during(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Demands that they are what they should be.
pub(super) fn check(root: &Path) -> Result<()> {
    for (file, text) in made(root)? {
        if fs::read_to_string(root.join(file)).ok() != Some(text) {
            return Err(Error::new(format!(
                "{file} does not fit {RULES}. Write it anew: cargo xtask alerts"
            )));
        }
    }
    Ok(())
}

fn made(root: &Path) -> Result<[(&'static str, String); 2]> {
    let read =
        |file: &str| fs::read_to_string(root.join(file)).during(|| format!("cannot read {file}"));
    Ok([
        (MANIFEST, manifest(&read(RULES)?)),
        (README, with_table(&read(README)?, &rules(root)?)?),
    ])
}

/// The plain file, line by line, under the head that the Prometheus operator wants.
fn manifest(rules: &str) -> String {
    let mut text = format!(
        "# Made from {RULES} by `cargo xtask alerts`: change that one.\n\
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

/// The README with the table of these rules.
fn with_table(readme: &str, rules: &[Rule]) -> Result<String> {
    let parts = readme
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else {
        return Err(Error::new(format!(
            "{README} has no place for the table: {BEGIN}"
        )));
    };
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(rules)))
}

/// A line for each alert.
fn table(rules: &[Rule]) -> String {
    let line = |rule: &Rule| {
        let after = match rule.text("for") {
            "0s" => "at once",
            duration => duration,
        };
        let (name, anchor) = (&rule.name, rule.name.to_lowercase());
        let (severity, summary) = (rule.severity(), rule.annotation("summary"));
        format!(
            "| [{name}](runbooks.md#{anchor}) | {severity} | {after} | {} |\n",
            bare(summary)
        )
    };
    let alerts = rules.iter().filter(|rule| rule.is_alert);
    let head = "| Alert | Severity | After | It says |\n|---|---|---|---|\n";
    std::iter::once(head.to_owned())
        .chain(alerts.map(line))
        .collect()
}

/// A template with an ellipsis in place of what is filled in.
fn bare(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        text.push('…');
        rest = after.split_once("}}").map_or("", |(_, rest)| rest);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::{bare, manifest};

    #[test]
    fn a_template_is_shown_without_what_is_filled_in() {
        assert_eq!(
            bare("{{ $value }} of {{ $labels.queue }} died"),
            "… of … died"
        );
        assert_eq!(bare("none"), "none");
    }

    #[test]
    fn the_manifest_is_the_plain_file_under_a_head() {
        let text = manifest("# why\ngroups:\n\n- name: a\n");
        assert!(
            text.ends_with("\nspec:\n  # why\n  groups:\n\n  - name: a\n"),
            "{text}"
        );
    }
}
