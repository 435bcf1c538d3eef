//! `redrive audit`: the audit log, and the check of the counters.

mod lines;

use std::time::Duration;

use clap::Subcommand;
use redrive::admin::{AuditFilter, AuditRecord};
use redrive::dlq::runs::RunId;

use super::findings::report;
use crate::prelude::*;
use lines::{AuditLine, Whole, about, details, lines};

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
    /// Compare the published counters with the rows
    ///
    /// The comparison is exact and reads every job and letter, so run it when the server is not
    /// busy.
    #[command(
        before_help = "Example:\n  redrive audit counters\n",
        after_help = "\
The exit code is 1 if a counter differs from the rows. The cause is a bug, or an
older version of a program that did not count."
    )]
    Counters,
}

impl AuditCommand {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if let Some(AuditSubcommand::Counters) = self.subcommand {
            return check_counters(cx);
        }
        let filter = AuditFilter::new()
            .limit(self.limit + 1)
            .with(self.since, AuditFilter::since)
            .with(self.verb.as_ref(), AuditFilter::verb)
            .with(self.before, AuditFilter::before);
        let db = cx.database()?;
        let mut records = db.admin().audit(&filter)?;
        let more = More::after(self.limit, "records", &mut records, |last| {
            format!("--before {}", last.id)
        });
        let lines = match cx.global.json {
            true => Vec::new(),
            false => whole(lines(&records), &db)?,
        };
        let table = table!(line in lines => {
            Number "ID" => line.record.id,
            // Up to seconds.
            Text "AT" => rfc3339(line.record.at).chars().take(19).collect::<String>(),
            Word "VERB" => line.record.verb,
            Number "CHANGED" => grouped(line.letters),
            Text "OPERATOR" => line.record.person.as_ref().unwrap_or(&line.record.role),
            Text "DETAILS AND REASON" => details(line.record),
        });
        cx.list_some(
            &more,
            "no audit record matches",
            &records,
            record_json,
            &table,
        )
    }
}

/// Adds what the steps of a run that are not on this page changed.
fn whole<'r>(mut lines: Vec<AuditLine<'r>>, db: &Database) -> Result<Vec<AuditLine<'r>>> {
    for line in &mut lines {
        if let Whole::Run(run) = line.whole {
            let run = db.dlq().runs().get(RunId::new(run))?;
            line.letters = run.map_or(line.letters, |run| run.sent);
        }
    }
    Ok(lines)
}

fn record_json(record: &AuditRecord) -> impl Serialize {
    let mut about = about(record);
    about.iter_mut().for_each(with_stored_times);
    object!(record => id, operation, at, verb, role, person, reason, filter, changed = record.letters, about = about)
}

fn check_counters(cx: &mut Context<'_>) -> Result<Ending> {
    let audits = cx.unchecked_database()?.admin().audit_counters()?;
    let wrong = audits.into_iter().filter(|audit| audit.drift != 0);
    let wrong = wrong.map(|audit| {
        format!(
            "queue {}, {}: {} rows, {} counted",
            one_line(&audit.queue),
            audit.set,
            audit.rows,
            audit.total
        )
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        cx.say("the counters match the rows");
        return Ok(Ending::Done);
    }
    let differences = counted(wrong.len() as u64, "difference");
    let differ = format!("{differences} between the counters and the rows");
    report("counter", &wrong, &differ, cx)
}
