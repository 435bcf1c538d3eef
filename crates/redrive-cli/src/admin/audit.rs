//! `redrive audit`: the audit log, and the check of the counters.

mod lines;

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::admin::{AuditFilter, AuditRecord, CounterAudit};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{self, rfc3339};
use lines::lines;

/// Show the audit log: operations on letters and jobs with their operator and reason, newest first
///
/// The log is append-only; `redrive prune --audit` deletes old records. Each record is written in the
/// transaction of its operation. The batches of an operation share a line, and so do the records of a
/// redrive run; --json shows each of them.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    before_help = "\
Examples:
  redrive audit --since 1d
  redrive audit --verb discard --json | jq .filter
"
)]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    subcommand: Option<AuditSubcommand>,
    /// Only records from the last 2h, 7d and so on.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<Duration>,
    /// Only records with this verb, such as redrive, discard or `resolve_group`.
    #[arg(long)]
    verb: Option<String>,
    /// At most this many records.
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only records before this id: the next page.
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
}

#[derive(Debug, Subcommand)]
enum AuditSubcommand {
    /// Compare the published counters with the rows, and store the difference
    ///
    /// The comparison is exact and reads every job and letter, so run it when the server is not
    /// busy. The exporter publishes the result as `redrive_audit_drift_jobs`.
    #[command(
        before_help = "Example:\n  redrive audit counters\n",
        after_help = "\
The exit code is 1 if a counter differs from the rows. The cause is a bug, or an
older version of a program that did not count."
    )]
    Counters,
}

impl AuditCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match self.subcommand {
            Some(AuditSubcommand::Counters) => Profession::Operator,
            None => Profession::Reader,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if let Some(AuditSubcommand::Counters) = self.subcommand {
            return check_counters(cx);
        }
        let mut filter = AuditFilter::new().limit(self.limit);
        if let Some(since) = self.since {
            filter = filter.since(since);
        }
        if let Some(verb) = &self.verb {
            filter = filter.verb(verb);
        }
        if let Some(before) = self.before {
            filter = filter.before(before);
        }
        let records = cx.database()?.admin().audit(&filter)?;
        if cx.global.json {
            for record in &records {
                json_line(cx.out, &record_json(record))?;
            }
        } else if !records.is_empty() {
            record_table(&records).write(cx.out)?;
        }
        match records.last() {
            None => {
                cx.say("no audit record matches");
                return Ok(Ending::NothingMatched);
            }
            Some(last) if records.len() as u64 == self.limit => {
                cx.say_more("records", &format!("--before {}", last.id))?;
            }
            Some(_) => {}
        }
        Ok(Ending::Done)
    }
}

fn record_table(records: &[AuditRecord]) -> Table {
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("AT"),
        Column::Word("VERB"),
        Column::Number("CHANGED"),
        Column::Text("OPERATOR"),
        Column::Text("DETAILS AND REASON"),
    ]);
    for line in lines(records) {
        table.row([
            line.id.to_string(),
            line.at,
            line.verb,
            grouped(line.letters),
            line.operator,
            line.details,
        ]);
    }
    table
}

fn record_json(record: &AuditRecord) -> serde_json::Value {
    json!({
        "id": record.id,
        "at": rfc3339(record.at),
        "verb": record.verb,
        "role": record.role,
        "person": record.person,
        "reason": record.reason,
        "filter": record.filter,
        "letters": record.letters,
        "about": record.about,
    })
}

fn check_counters(cx: &mut Context<'_>) -> Result<Ending> {
    let audits = cx.unchecked_database()?.admin().audit_counters()?;
    if cx.global.json {
        for audit in &audits {
            json_line(cx.out, &counter_json(audit))?;
        }
    } else if !audits.is_empty() {
        let mut table = Table::new([
            Column::Text("QUEUE"),
            Column::Word("SET"),
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
        table.write(cx.out)?;
    }
    let wrong = audits.iter().filter(|audit| audit.drift != 0).count();
    cx.out.flush()?;
    if wrong > 0 {
        cx.say(format!("{wrong} counters differ from the rows"));
        return Ok(Ending::NothingMatched);
    }
    cx.say("the counters match the rows");
    Ok(Ending::Done)
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

fn counter_json(audit: &CounterAudit) -> serde_json::Value {
    json!({
        "queue": audit.queue,
        "set": audit.set.as_str(),
        "rows": audit.rows,
        "total": audit.total,
        "drift": audit.drift,
    })
}
