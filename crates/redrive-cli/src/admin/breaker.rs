//! `redrive breaker`: circuit breakers of dependencies and queues.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use redrive::Database;
use redrive::admin::{Breaker, BreakerState};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{self, ago, rfc3339, short};

/// List, open and close circuit breakers
///
/// A breaker belongs to a dependency that handlers name, or to a queue; the breaker of a queue is
/// called `queue:NAME`. While it is open, its jobs wait and lose no attempts. Single jobs probe the
/// dependency, and the breaker closes after the first success.
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
    #[command(before_help = "\
Examples:
  redrive breaker open queue:orders --reason 'gateway upgrade'
  redrive breaker open payments-api --for 30m
")]
    Open {
        /// Dependency, or `queue:` and the name of a queue.
        #[arg(value_name = "NAME")]
        name: String,
        /// Time until a job probes the dependency [default: until the breaker is closed].
        #[arg(long = "for", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
        duration: Option<Duration>,
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
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            BreakerSubcommand::List { all } => list(&db, *all, cx),
            BreakerSubcommand::Open {
                name,
                duration,
                reason,
            } => {
                db.admin()
                    .open_breaker(name, *duration, &operator::current(reason.as_deref()))?;
                if cx.global.json {
                    json_line(cx.out, &json!({ "name": name, "state": "open" }))?;
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

fn close(db: &Database, name: &str, reason: Option<&str>, cx: &mut Context<'_>) -> Result<Ending> {
    if !db.admin().close_breaker(name, &operator::current(reason))? {
        cx.say(format!(
            "breaker {} is not open: redrive breaker list",
            one_line(name)
        ));
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        json_line(cx.out, &json!({ "name": name, "state": "closed" }))?;
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
        Column::Text("STATE"),
        Column::Text("CAUSE"),
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
        "name": breaker.name, "state": breaker.state.as_str(), "cause": breaker.cause.as_str(),
        "message": breaker.message, "kinds": breaker.kinds, "outages": breaker.outages,
        "openings": breaker.openings, "probes": breaker.probes,
        "wait_ms": u64::try_from(breaker.wait.as_millis()).unwrap_or(u64::MAX),
        "opened_at": rfc3339(breaker.opened_at), "probe_at": breaker.probe_at.map(rfc3339),
        "changed_at": rfc3339(breaker.changed_at),
    })
}
