//! `redrive audit`: who did what to the letters; and whether the counters are right.

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::{AuditRecord, CounterAudit};
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{self, rfc3339};
use crate::error::Result;
use crate::render::{grouped, json_line, one_line};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// Show who did what to the letters, and why, the newest act first.
///
/// The audit is append-only, and each act is written in the transaction of the act.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  redrive audit --since 1d
  redrive audit --verb discard --json | jq .filter"
)]
pub(crate) struct Audit {
    #[command(subcommand)]
    what: Option<What>,
    /// Only acts of the last while, such as 2h or 7d.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    since: Option<Duration>,
    /// Only acts of this verb: redrive, discard, `resolve_group`, …
    #[arg(long)]
    verb: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only acts before the one with this number: the next page.
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Compare the counters that are published with the rows, and store the drift.
    ///
    /// Exactly and as of one moment. It reads every job and letter: run it when the server has
    /// time. What it finds is published as `redrive_counter_drift_jobs`.
    #[command(after_help = "\
The exit code is 1 when a counter is not what the rows say: that is a bug, or the work of a
program of an older version that did not count.

Example:
  redrive audit counters")]
    Counters,
}

impl Audit {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        if let Some(What::Counters) = self.what {
            return counters(arguments, io);
        }
        let mut which = redrive::Audit::all().limit(self.limit);
        if let Some(since) = self.since {
            which = which.since(since);
        }
        if let Some(verb) = &self.verb {
            which = which.verb(verb);
        }
        if let Some(before) = self.before {
            which = which.before(before);
        }
        let acts = connect::database(arguments, Patience::Minute, io)?.audit(&which)?;
        if arguments.json {
            for act in &acts {
                json_line(io.out, &object(act))?;
            }
        } else if !acts.is_empty() {
            table(&acts).write(io.out)?;
        }
        match acts.last() {
            None => {
                io.say("the audit has no such act");
                return Ok(Ending::NothingMatched);
            }
            Some(last) if acts.len() as u64 == self.limit => {
                io.out.flush()?;
                io.say(format!("there may be more: --before {}", last.id));
            }
            Some(_) => {}
        }
        Ok(Ending::Done)
    }
}

fn counters(arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let audits = connect::database(arguments, Patience::Minute, io)?.audit_counters()?;
    if arguments.json {
        for audit in &audits {
            json_line(io.out, &counter_object(audit))?;
        }
    } else if !audits.is_empty() {
        let mut table = Table::new([
            Column::Text("QUEUE"),
            Column::Text("SET"),
            Column::Number("ROWS"),
            Column::Number("TOTAL"),
            Column::Number("DRIFT"),
        ]);
        for audit in &audits {
            table.row([
                one_line(&audit.queue),
                audit.set.to_string(),
                signed(audit.rows),
                signed(audit.total),
                signed(audit.drift),
            ]);
        }
        table.write(io.out)?;
    }
    let wrong = audits.iter().filter(|audit| audit.drift != 0).count();
    io.out.flush()?;
    if wrong > 0 {
        io.say(format!("{wrong} counters are not what the rows say"));
        return Ok(Ending::NothingMatched);
    }
    io.say("the counters are what the rows say");
    Ok(Ending::Done)
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

fn counter_object(audit: &CounterAudit) -> serde_json::Value {
    json!({
        "queue": audit.queue,
        "set": audit.set.as_str(),
        "rows": audit.rows,
        "total": audit.total,
        "drift": audit.drift,
    })
}

fn table(acts: &[AuditRecord]) -> Table {
    let mut table = Table::new([
        Column::Text("AT"),
        Column::Text("VERB"),
        Column::Number("LETTERS"),
        Column::Text("WHO"),
        Column::Text("WHAT AND WHY"),
    ]);
    for act in acts {
        let about = [&act.filter, &act.about].into_iter().flatten();
        let mut told: Vec<&str> = about.map(|json| json.get()).collect();
        told.extend(act.why.as_deref());
        let at = rfc3339(act.at);
        table.row([
            // To the second: the rest is in --json.
            at.get(..19).unwrap_or(&at).to_owned(),
            act.verb.clone(),
            grouped(act.letters),
            act.person.clone().unwrap_or_else(|| act.role.clone()),
            told.join(" "),
        ]);
    }
    table
}

fn object(act: &AuditRecord) -> serde_json::Value {
    json!({
        "id": act.id,
        "at": rfc3339(act.at),
        "verb": act.verb,
        "role": act.role,
        "person": act.person,
        "why": act.why,
        "filter": act.filter,
        "letters": act.letters,
        "about": act.about,
    })
}
