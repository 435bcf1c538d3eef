//! `redrive breaker`: what is down, and pausing queues by hand.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use redrive::{BreakerState, Database};
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{self, ago, rfc3339, short};
use crate::error::Result;
use crate::render::{grouped, json_line, one_line};
use crate::table::{Column, Table};
use crate::{Ending, Streams, person};

/// Show what is down, pause a queue, or let it go on.
///
/// A breaker is of a dependency, as handlers name it, or of a whole queue: then its name is
/// `queue:` and the name of the queue. While it is open the jobs concerned wait, and nothing is
/// charged to them; it closes by itself when one of them, tried now and then, meets no outage.
#[derive(Args, Debug)]
pub(crate) struct Breaker {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// List the breakers that are not closed; --all lists all that ever were open.
    #[command(after_help = "\
The exit code is 1 when there is none.

Example:
  redrive breaker list")]
    List {
        /// Also those that are closed.
        #[arg(long)]
        all: bool,
    },
    /// Open a breaker: nobody claims the jobs concerned. What runs, runs on.
    #[command(after_help = "\
Examples:
  redrive breaker open queue:orders --why 'an upgrade of the gateway'
  redrive breaker open payments-api --for 30m")]
    Open {
        /// A dependency, or `queue:` and the name of a queue.
        #[arg(value_name = "NAME")]
        name: String,
        /// For how long, until a job is tried; by default until it is closed.
        #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, allow_hyphen_values = true)]
        lasting: Option<Duration>,
        /// Why, for the audit.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Close a breaker, whoever opened it: jobs are claimed again.
    #[command(after_help = "\
The exit code is 1 when it was not open.

Example:
  redrive breaker close queue:orders")]
    Close {
        /// A dependency, or `queue:` and the name of a queue.
        #[arg(value_name = "NAME")]
        name: String,
        /// Why, for the audit.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

impl Breaker {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match &self.act {
            Act::List { all } => list(&db, *all, arguments, io),
            Act::Open { name, lasting, why } => {
                db.open_breaker(name, *lasting, &person::act(why.as_deref()))?;
                if arguments.json {
                    json_line(io.out, &json!({ "name": name, "state": "open" }))?;
                    return Ok(Ending::Done);
                }
                let until = match lasting {
                    Some(lasting) => format!("for {}, then a job is tried", short(*lasting)),
                    None => "until it is closed".to_owned(),
                };
                writeln!(io.out, "breaker {} is open {until}", one_line(name))?;
                Ok(Ending::Done)
            }
            Act::Close { name, why } => close(&db, name, why.as_deref(), arguments, io),
        }
    }
}

fn close(
    db: &Database,
    name: &str,
    why: Option<&str>,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    if !db.close_breaker(name, &person::act(why))? {
        io.say(format!(
            "breaker {} is not open: redrive breaker list",
            one_line(name)
        ));
        return Ok(Ending::NothingMatched);
    }
    if arguments.json {
        json_line(io.out, &json!({ "name": name, "state": "closed" }))?;
    } else {
        writeln!(io.out, "breaker {} is closed", one_line(name))?;
    }
    Ok(Ending::Done)
}

fn list(db: &Database, all: bool, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let mut breakers = db.breakers()?;
    breakers.retain(|breaker| all || breaker.state != BreakerState::Closed);
    if breakers.is_empty() {
        io.say("no breaker is open");
        return Ok(Ending::NothingMatched);
    }
    if arguments.json {
        for breaker in &breakers {
            json_line(io.out, &line(breaker))?;
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
            BreakerState::Closed => breaker.changed_at,
            BreakerState::Open | BreakerState::HalfOpen => breaker.opened_at,
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
    table.write(io.out)?;
    Ok(Ending::Done)
}

/// In how long the next job is tried.
fn probe_in(breaker: &redrive::Breaker) -> String {
    match (breaker.state, breaker.probe_at) {
        (BreakerState::Closed, _) => "-".to_owned(),
        (BreakerState::HalfOpen, _) => "now".to_owned(),
        (BreakerState::Open, None) => "never".to_owned(),
        (BreakerState::Open, Some(at)) => at
            .duration_since(SystemTime::now())
            .map_or_else(|_| "now".to_owned(), short),
    }
}

fn line(breaker: &redrive::Breaker) -> serde_json::Value {
    json!({
        "name": breaker.name, "state": breaker.state.as_str(), "cause": breaker.cause.as_str(),
        "message": breaker.message, "kinds": breaker.kinds, "outages": breaker.outages,
        "openings": breaker.openings, "probes": breaker.probes,
        "wait_ms": u64::try_from(breaker.wait.as_millis()).unwrap_or(u64::MAX),
        "opened_at": rfc3339(breaker.opened_at), "probe_at": breaker.probe_at.map(rfc3339),
        "changed_at": rfc3339(breaker.changed_at),
    })
}
