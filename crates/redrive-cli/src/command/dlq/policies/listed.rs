//! `redrive dlq policies list`: each policy, its last tick and its next.

use std::time::SystemTime;

use clap::Args;
use redrive::{PolicyBreaker, PolicyMode, PolicyStatus};
use serde_json::{Map, Value, json};

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339, short};
use crate::error::Result;
use crate::render::{grouped, json_line, one_line};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// List the policies: what each does, what its last tick did, when the next one is due.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq policies list
  redrive dlq policies list --json | jq .last_trouble")]
pub(super) struct List {}

impl List {
    #[expect(clippy::unused_self, reason = "as all commands are run")]
    pub(super) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let policies = connect::database(arguments, Patience::Minute, io)?.policies()?;
        if policies.is_empty() {
            io.say("there is no policy");
            return Ok(Ending::NothingMatched);
        }
        if arguments.json {
            for policy in &policies {
                json_line(io.out, &object(policy))?;
            }
            return Ok(Ending::Done);
        }
        table(&policies).write(io.out)?;
        for policy in &policies {
            if let Some(trouble) = &policy.last_trouble {
                let (name, trouble) = (one_line(&policy.name), one_line(trouble));
                writeln!(io.out, "\nThe last tick of `{name}` failed: {trouble}")?;
            }
        }
        Ok(Ending::Done)
    }
}

fn table(policies: &[PolicyStatus]) -> Table {
    let mut table = Table::new([
        Column::Text("POLICY"),
        Column::Text("MODE"),
        Column::Number("EVERY"),
        Column::Number("BATCH"),
        Column::Number("GEN"),
        Column::Text("NEXT"),
        Column::Text("LAST"),
        Column::Number("SENT"),
        Column::Text("LETTERS"),
    ]);
    for policy in policies {
        table.row([
            policy.name.clone(),
            policy.mode.to_string(),
            short(policy.every),
            policy.batch.to_string(),
            policy.generations.to_string(),
            next(policy),
            last(policy),
            grouped(policy.sent),
            words(policy.filter.get()),
        ]);
    }
    table
}

fn next(policy: &PolicyStatus) -> String {
    if policy.mode == PolicyMode::Paused {
        return "-".to_owned();
    }
    if policy.is_held {
        return "breaker open".to_owned();
    }
    match policy.next_at.duration_since(SystemTime::now()) {
        Ok(wait) => short(wait),
        Err(_) => match policy.hours {
            Some(hours) => format!("at {hours}h"),
            None => "due".to_owned(),
        },
    }
}

fn last(policy: &PolicyStatus) -> String {
    let Some(at) = policy.last_at else {
        return "-".to_owned();
    };
    match policy.last_trouble {
        Some(_) => format!("failed {} ago", ago(at)),
        None => format!("{}, {} ago", grouped(policy.last_letters), ago(at)),
    }
}

/// A filter in words.
fn words(filter: &str) -> String {
    let keys: Map<String, Value> = serde_json::from_str(filter).unwrap_or_default();
    if keys.is_empty() {
        return "all".to_owned();
    }
    let word = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{key} {text}"),
        None => format!("{key} {value}"),
    };
    keys.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn object(policy: &PolicyStatus) -> Value {
    json!({
        "policy": policy.name,
        "mode": policy.mode.as_str(),
        "filter": serde_json::from_str::<Value>(policy.filter.get()).unwrap_or_default(),
        "every_ms": policy.every.as_millis(),
        "growth": policy.growth,
        "longest_delay_ms": policy.longest_delay.as_millis(),
        "batch": policy.batch,
        "generations": policy.generations,
        "hours": policy.hours.map(|hours| hours.to_string()),
        "heeds_breaker": policy.breaker == PolicyBreaker::Heed,
        "is_held": policy.is_held,
        "next_at": rfc3339(policy.next_at),
        "last_at": policy.last_at.map(rfc3339),
        "last_letters": policy.last_letters,
        "last_trouble": policy.last_trouble,
        "sent": policy.sent,
        "term": policy.term,
        "holder": policy.holder.map(|holder| holder.to_string()),
        "host": policy.host,
        "pid": policy.pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_told_in_words() {
        assert_eq!(words("{}"), "all");
        assert_eq!(
            words(r#"{"queue":"orders","generation_to":3}"#),
            "generation_to 3, queue orders"
        );
    }
}
