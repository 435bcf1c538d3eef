//! What the panels tell people to type exists: commands are parsed by the programs themselves,
//! queries are planned by the server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use postgres::{Client, NoTls};
use serde_json::Value;

use super::files;
use super::stage::Life;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// How long a program may take to say its help.
const ANSWER: Duration = Duration::from_secs(20);
/// What stands in for the words that people replace.
const STAND_INS: [(&str, &str); 13] = [
    ("PID", "1"),
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
pub(crate) fn check(root: &Path, interrupt: &Interrupt, life: &Life) -> Result<()> {
    let mut client =
        Client::connect(&life.url, NoTls).during(|| "cannot connect to plan the queries")?;
    let mut typed = Vec::new();
    for file in files(root) {
        let text =
            fs::read_to_string(&file).during(|| format!("cannot read {}", file.display()))?;
        let dashboard: Value =
            serde_json::from_str(&text).during(|| format!("{} is no JSON", file.display()))?;
        collect(&dashboard, &mut typed);
    }
    typed.sort();
    typed.dedup();
    for line in &typed {
        let words = split(&stand_in(line));
        match words.first().map(String::as_str) {
            Some("redrive") => parses(
                interrupt,
                Command::new(&life.programs.redrive),
                &words,
                line,
            )?,
            Some("redrive-exporter") => {
                parses(
                    interrupt,
                    Command::new(&life.programs.exporter),
                    &words,
                    line,
                )?;
            }
            Some("SELECT") => client
                .batch_execute(&format!("EXPLAIN {}", stand_in(line)))
                .during(|| format!("a panel names a query that cannot be run: {line}"))?,
            // Others change the server.
            _ => {}
        }
    }
    println!(
        "    {} commands and queries of the panels exist",
        typed.len()
    );
    Ok(())
}

/// The lines after `**Type:**` of every panel.
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

/// A program takes its arguments as far as it would before it does anything.
fn parses(interrupt: &Interrupt, mut program: Command, words: &[String], line: &str) -> Result<()> {
    let output = interrupt
        .output(program.args(&words[1..]).arg("--help"), ANSWER)?
        .ok_or_else(|| Error::new(format!("`{line} --help` did not end")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(format!(
        "a panel names a command that does not exist: `{line}`\n{}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}

fn stand_in(line: &str) -> String {
    STAND_INS
        .iter()
        .fold(line.to_owned(), |line, (word, value)| {
            line.replace(word, value)
        })
}

/// Words as a shell has them, with single quotes.
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
    fn commands_are_found_and_parted() {
        let panel = serde_json::json!({"panels": [{"description": "**Type:** `redrive dlq`, `redrive stats`"}]});
        let mut found = Vec::new();
        collect(&panel, &mut found);
        assert_eq!(found, ["redrive dlq", "redrive stats"]);
        assert_eq!(
            split(&stand_in(
                "redrive dlq discard QUEUE 'died>7d' --why 'TEXT'"
            )),
            [
                "redrive", "dlq", "discard", "orders", "died>7d", "--why", "fixed"
            ]
        );
    }
}
