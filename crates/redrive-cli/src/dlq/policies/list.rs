//! `redrive dlq policies list`: the policies, with their last and next tick.

use std::time::SystemTime;

use clap::Args;
use redrive::dlq::{PolicyBreaker, PolicyMode, PolicyStatus, stored_conditions};
use serde::Serialize;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Json as _, grouped, line, table};
use crate::time::{ago, short};

/// List policies with their last and next tick
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq policies list
  redrive dlq policies list --json | jq .last_error
")]
pub(crate) struct ListPolicies {}

impl ListPolicies {
    #[expect(clippy::unused_self, reason = "every command has the same signature")]
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let policies = cx.database()?.dlq().policies().list()?;
        let table = table!(policy in &policies => {
            Text "POLICY" => policy.name,
            Word "MODE" => policy.mode,
            Number "EVERY" => short(policy.every),
            Number "BATCH" => policy.batch,
            Number "GEN" => policy.generations,
            Text "NEXT" => next_tick(policy),
            Text "LAST" => last_tick(policy),
            Number "SENT" => grouped(policy.sent),
            Text "LETTERS" => filter_text(policy.filter.get()),
        });
        let ending = cx.list("there are no policies", &policies, policy_json, &table)?;
        let failed = policies
            .iter()
            .map(|policy| (&*policy.name, policy.last_trouble.as_deref()));
        cx.write_troubles(failed)?;
        Ok(ending)
    }
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

fn policy_json(policy: &PolicyStatus) -> impl Serialize {
    line!(policy =>
        id = &policy.name, mode, filter, every_ms = policy.every.json(), growth,
        longest_delay_ms = policy.longest_delay.json(), batch, generations,
        hours = policy.hours.map(|hours| hours.to_string()),
        heeds_breaker = policy.breaker == PolicyBreaker::Heed, is_held, next_at, last_at,
        last_letters, last_error = &policy.last_trouble, sent, term,
        holder = policy.holder.map(|holder| holder.to_string()), host, pid,
    )
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
