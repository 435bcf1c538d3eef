//! `redrive breaker`: circuit breakers of dependencies and queues.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use redrive::Database;
use redrive::admin::{Breaker, BreakerState, KnownQueues};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::{QUEUES, no_queue, quoted};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{self, ago, rfc3339, short};

/// List, open and close circuit breakers
///
/// A breaker belongs to a dependency that handlers name, or to a queue; the breaker of a queue is
/// called `queue:NAME`. While it is open, its jobs wait and lose no attempts. Single jobs probe the
/// dependency, and the breaker closes after the first success. To stop a queue on purpose, use
/// `redrive queue pause`, which makes no probe.
#[derive(Args, Debug)]
pub(crate) struct BreakerCommand {
    #[command(subcommand)]
    subcommand: BreakerSubcommand,
}

#[derive(Debug, Subcommand)]
enum BreakerSubcommand {
    /// List the breakers that are not closed
    #[command(
        before_help = "\
Example:
  redrive breaker list
",
        after_help = "The exit code is 1 if no breaker matches."
    )]
    List {
        /// Also list closed breakers.
        #[arg(long)]
        all: bool,
    },
    /// Open a breaker, so that its jobs wait; running jobs continue
    #[command(
        before_help = "\
Examples:
  redrive breaker open queue:orders --reason 'the gateway is down'
  redrive breaker open payments-api --for 30m
",
        after_help = "\
A queue exists if it has jobs, letters or a worker. The exit code is 1 if there is
no such queue, or if a queue is named without `queue:`. --any-name opens the
breaker all the same."
    )]
    Open {
        /// Dependency, or `queue:` and the name of a queue.
        #[arg(value_name = "NAME")]
        name: String,
        /// Time until a job probes the dependency [default: until the breaker is closed].
        #[arg(long = "for", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
        duration: Option<Duration>,
        /// Open the breaker of a queue that does not exist yet.
        #[arg(long)]
        any_name: bool,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Close a breaker, so that its jobs are claimed again
    #[command(
        before_help = "\
Example:
  redrive breaker close queue:orders
",
        after_help = "The exit code is 1 if the breaker was not open."
    )]
    Close {
        /// Dependency, or `queue:` and the name of a queue.
        #[arg(value_name = "NAME")]
        name: String,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl BreakerCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match self.subcommand {
            BreakerSubcommand::List { .. } => Profession::Reader,
            BreakerSubcommand::Open { .. } | BreakerSubcommand::Close { .. } => {
                Profession::Operator
            }
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            BreakerSubcommand::List { all } => list(&db, *all, cx),
            BreakerSubcommand::Open {
                name,
                duration,
                any_name,
                reason,
            } => {
                let queue = name.strip_prefix("queue:").unwrap_or(name);
                let queues = db.admin().queue_names(queue, QUEUES)?;
                match check_name(name, &queues, &db.admin().breakers()?) {
                    Some(Misnamed::Refused(problem)) if !any_name => {
                        cx.say(format!("{problem}; to open it anyway, add --any-name"));
                        return Ok(Ending::NothingMatched);
                    }
                    Some(Misnamed::NoKinds(warning)) => cx.say(warning),
                    Some(Misnamed::Refused(_)) | None => {}
                }
                db.admin()
                    .open_breaker(name, *duration, &operator::current(reason.as_deref()))?;
                if cx.global.json {
                    json_line(cx.out, &json!({ "id": name, "state": "open" }))?;
                    return Ok(Ending::Done);
                }
                let until = match duration {
                    Some(duration) => format!("for {}, then a job probes it", short(*duration)),
                    None => "until it is closed".to_owned(),
                };
                writeln!(cx.out, "breaker {} is open {until}", one_line(name))?;
                Ok(Ending::Done)
            }
            BreakerSubcommand::Close { name, reason } => close(&db, name, reason.as_deref(), cx),
        }
    }
}

/// A problem with the name of a breaker to open.
#[derive(Debug, PartialEq)]
enum Misnamed {
    /// It would never stop a job.
    Refused(String),
    /// It stops no job yet.
    NoKinds(String),
}

/// Checks the name of a breaker against the queues and the dependencies that exist.
fn check_name(name: &str, queues: &KnownQueues, breakers: &[Breaker]) -> Option<Misnamed> {
    // The database refuses an empty name.
    if let Some(queue) = name.strip_prefix("queue:") {
        let is_fine = queues.is_known || queue.is_empty();
        return (!is_fine).then(|| Misnamed::Refused(no_queue(queue, &queues.names)));
    }
    // A breaker that an operator opened has no kinds until a handler reports an outage.
    let mut known = breakers.iter().filter(|breaker| !breaker.kinds.is_empty());
    if known.any(|breaker| breaker.name == name) {
        return None;
    }
    let shown = one_line(name);
    if queues.is_known {
        let breaker = quoted(&format!("queue:{name}"));
        return Some(Misnamed::Refused(format!(
            "there is no dependency `{shown}`, but a queue: redrive breaker open {breaker}"
        )));
    }
    Some(Misnamed::NoKinds(format!(
        "warning: no handler has reported an outage of a dependency `{shown}`, so no job waits for \
         it yet"
    )))
}

fn close(db: &Database, name: &str, reason: Option<&str>, cx: &mut Context<'_>) -> Result<Ending> {
    if !db.admin().close_breaker(name, &operator::current(reason))? {
        cx.say(format!(
            "breaker {} is not open: redrive breaker list",
            one_line(name)
        ));
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        json_line(cx.out, &json!({ "id": name, "state": "closed" }))?;
    } else {
        writeln!(cx.out, "breaker {} is closed", one_line(name))?;
    }
    Ok(Ending::Done)
}

fn list(db: &Database, all: bool, cx: &mut Context<'_>) -> Result<Ending> {
    let mut breakers = db.admin().breakers()?;
    breakers.retain(|breaker| all || breaker.state != BreakerState::Closed);
    if breakers.is_empty() {
        cx.say("no breaker is open");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for breaker in &breakers {
            json_line(cx.out, &breaker_json(breaker))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("BREAKER"),
        Column::Word("STATE"),
        Column::Word("CAUSE"),
        Column::Number("FOR"),
        Column::Number("PROBE IN"),
        Column::Number("OUTAGES"),
        Column::Text("MESSAGE"),
    ]);
    for breaker in &breakers {
        let since = match breaker.state {
            BreakerState::Open | BreakerState::HalfOpen => breaker.opened_at,
            BreakerState::Closed | _ => breaker.changed_at,
        };
        table.row([
            breaker.name.clone(),
            breaker.state.to_string(),
            breaker.cause.to_string(),
            ago(since),
            probe_in(breaker),
            grouped(breaker.outages),
            breaker.message.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

/// The time until the next probe.
fn probe_in(breaker: &Breaker) -> String {
    match (breaker.state, breaker.probe_at) {
        (BreakerState::HalfOpen, _) => "now".to_owned(),
        (BreakerState::Open, None) => "never".to_owned(),
        (BreakerState::Open, Some(at)) => at
            .duration_since(SystemTime::now())
            .map_or_else(|_| "now".to_owned(), short),
        (BreakerState::Closed | _, _) => "-".to_owned(),
    }
}

fn breaker_json(breaker: &Breaker) -> serde_json::Value {
    json!({
        "id": breaker.name, "state": breaker.state.as_str(), "cause": breaker.cause.as_str(),
        "message": breaker.message, "kinds": breaker.kinds, "outages": breaker.outages,
        "openings": breaker.openings, "probes": breaker.probes,
        "wait_ms": u64::try_from(breaker.wait.as_millis()).unwrap_or(u64::MAX),
        "opened_at": rfc3339(breaker.opened_at), "probe_at": breaker.probe_at.map(rfc3339),
        "changed_at": rfc3339(breaker.changed_at),
    })
}
