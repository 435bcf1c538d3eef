//! `redrive dlq policies list`: the policies, with their last and next tick.

use std::time::SystemTime;

use clap::Args;
use redrive::dlq::{PolicyBreaker, PolicyMode, PolicyStatus, stored_conditions};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{ago, rfc3339, short};

/// List policies with their last and next tick
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq policies list
  redrive dlq policies list --json | jq .last_error
")]
pub(super) struct ListPolicies {}

impl ListPolicies {
    #[expect(clippy::unused_self, reason = "every command has the same signature")]
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let policies = cx.database()?.dlq().policies().list()?;
        if policies.is_empty() {
            cx.say("there are no policies");
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for policy in &policies {
                json_line(cx.out, &policy_json(policy))?;
            }
            return Ok(Ending::Done);
        }
        table(&policies).write(cx.out)?;
        for policy in &policies {
            if let Some(error) = &policy.last_trouble {
                let (name, error) = (one_line(&policy.name), one_line(error));
                writeln!(cx.out, "\nThe last tick of `{name}` failed: {error}")?;
            }
        }
        Ok(Ending::Done)
    }
}

fn table(policies: &[PolicyStatus]) -> Table {
    let mut table = Table::new([
        Column::Text("POLICY"),
        Column::Word("MODE"),
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
            next_tick(policy),
            last_tick(policy),
            grouped(policy.sent),
            filter_text(policy.filter.get()),
        ]);
    }
    table
}

fn next_tick(policy: &PolicyStatus) -> String {
    if policy.mode == PolicyMode::Paused {
        return "-".to_owned();
    }
    if policy.is_held {
        return "queue held".to_owned();
    }
    match policy.next_at.duration_since(SystemTime::now()) {
        Ok(wait) => short(wait),
        Err(_) => match policy.hours {
            Some(hours) => format!("at {hours}h"),
            None => "due".to_owned(),
        },
    }
}

fn last_tick(policy: &PolicyStatus) -> String {
    let Some(at) = policy.last_at else {
        return "-".to_owned();
    };
    match policy.last_trouble {
        Some(_) => format!("failed {} ago", ago(at)),
        None => format!("{}, {} ago", grouped(policy.last_letters), ago(at)),
    }
}

/// A stored filter as text.
fn filter_text(filter: &str) -> String {
    match &*stored_conditions(filter) {
        [] => "all".to_owned(),
        conditions => conditions.join(" "),
    }
}

fn policy_json(policy: &PolicyStatus) -> Value {
    json!({
        "id": policy.name,
        "mode": policy.mode.as_str(),
        "filter": serde_json::from_str::<Value>(policy.filter.get()).unwrap_or_default(),
        "every_ms": u64::try_from(policy.every.as_millis()).unwrap_or(u64::MAX),
        "growth": policy.growth,
        "longest_delay_ms": u64::try_from(policy.longest_delay.as_millis()).unwrap_or(u64::MAX),
        "batch": policy.batch,
        "generations": policy.generations,
        "hours": policy.hours.map(|hours| hours.to_string()),
        "heeds_breaker": policy.breaker == PolicyBreaker::Heed,
        "is_held": policy.is_held,
        "next_at": rfc3339(policy.next_at),
        "last_at": policy.last_at.map(rfc3339),
        "last_letters": policy.last_letters,
        "last_error": policy.last_trouble,
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
    fn a_stored_filter_is_shown_as_text() {
        assert_eq!(filter_text("{}"), "all");
        assert_eq!(
            filter_text(r#"{"queue":"orders","generation_to":3}"#),
            "queue=orders generation<=3"
        );
    }
}
