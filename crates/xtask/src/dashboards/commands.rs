//! Checks the commands and queries that panels suggest: the programs parse the commands, and the
//! server plans the queries.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use postgres::{Client, NoTls};
use serde_json::Value;

use super::environment::Recorded;
use super::files;
use crate::interrupt::Interrupt;

/// How long `--help` may take.
const ANSWER: Duration = Duration::from_secs(20);
/// Values for placeholders.
const PLACEHOLDERS: [(&str, &str); 12] = [
    ("DEPENDENCY", "gateway"),
    ("REASON", "timeout"),
    ("QUEUE", "orders"),
    ("CLASS", "Timeout"),
    ("GROUP", "1"),
    ("TABLE", "leases"),
    ("KIND", "order"),
    ("NAME", "ann"),
    ("TEXT", "fixed"),
    ("SLOT", "backup"),
    ("RUN", "1"),
    ("ID", "1"),
];

/// Checks every command and query of every panel.
pub(crate) fn check(root: &Path, interrupt: &Interrupt, recorded: &Recorded<'_>) -> Result<()> {
    let mut client = Client::connect(&recorded.environment.url, NoTls)
        .with_context(|| "cannot connect to the database")?;
    let mut typed = Vec::new();
    for file in files(root) {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let dashboard: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is not JSON", file.display()))?;
        collect(&dashboard, &mut typed);
    }
    typed.sort();
    typed.dedup();
    for line in &typed {
        let words = split(&filled(line));
        let binaries = &recorded.environment.binaries;
        match words.first().map(String::as_str) {
            Some("redrive") => parses(interrupt, &binaries.redrive, &words, line)?,
            Some("redrive-exporter") => parses(interrupt, &binaries.exporter, &words, line)?,
            Some("SELECT") => client
                .batch_execute(&format!("EXPLAIN {}", line.replace("PID", "1")))
                .with_context(|| format!("a panel suggests an invalid query: {line}"))?,
            // Other statements change the server.
            _ => {}
        }
    }
    println!(
        "    {} commands and queries of the panels are valid",
        typed.len()
    );
    Ok(())
}

/// Collects the lines after `**Type:**` in the descriptions of panels.
fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let described = members.get("description").and_then(Value::as_str);
            if let Some((_, lines)) = described.and_then(|text| text.split_once("**Type:** ")) {
                into.extend(lines.split('`').skip(1).step_by(2).map(str::to_owned));
            }
            members.values().for_each(|member| collect(member, into));
        }
        Value::Array(members) => members.iter().for_each(|member| collect(member, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Checks that a program accepts its arguments, with `--help` added so that it does nothing.
fn parses(interrupt: &Interrupt, program: &Path, words: &[String], line: &str) -> Result<()> {
    let output = interrupt
        .output(
            Command::new(program).args(&words[1..]).arg("--help"),
            ANSWER,
        )?
        .ok_or_else(|| anyhow!("`{line} --help` did not end"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(anyhow!(
        "a panel suggests an invalid command: `{line}`\n{}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}

fn filled(line: &str) -> String {
    PLACEHOLDERS
        .iter()
        .fold(line.to_owned(), |line, (word, value)| {
            line.replace(word, value)
        })
}

/// Splits a line as a shell does, with single quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => {
                if let Some(word) = words.last_mut() {
                    word.push(letter);
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_and_split() {
        let panel = serde_json::json!({"panels": [{"description": "**Type:** `redrive dlq`, `redrive stats`"}]});
        let mut found = Vec::new();
        collect(&panel, &mut found);
        assert_eq!(found, ["redrive dlq", "redrive stats"]);
        assert_eq!(
            split(&filled(
                "redrive dlq discard QUEUE 'age>7d' --reason 'TEXT'"
            )),
            [
                "redrive", "dlq", "discard", "orders", "age>7d", "--reason", "fixed"
            ]
        );
    }
}
