//! `redrive queue`: queues with their state, pauses, groups and rate limits.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use redrive::admin::{BreakerState, QueueStats};
use redrive::{Database, PauseEnd, Queue};
use serde_json::json;

use super::group::QueueGroupsCommand;
use super::rate_limit::{self, LimitedJobs, Rate};
use crate::context::{Context, Ending};
use crate::dlq::{QUEUES, no_queue, quoted};
use crate::error::Result;
use crate::operator;
use crate::pause::{ends_in, pause_json, state};
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{self, ago, rfc3339, short};

/// List, pause, resume and limit queues
///
/// No job of a paused queue starts in any process until the pause ends. Running jobs finish, and
/// enqueues continue. A pause is not an outage: no job probes it, and breakers have no effect on it.
#[derive(Args, Debug)]
pub(crate) struct QueueCommand {
    #[command(subcommand)]
    subcommand: QueueSubcommand,
}

#[derive(Debug, Subcommand)]
enum QueueSubcommand {
    /// List the queues with their state, jobs and waiting letters
    #[command(
        before_help = "\
Examples:
  redrive queue list
  redrive queue list --paused
",
        after_help = "This counts every job. The exit code is 1 if there is no such queue."
    )]
    List {
        /// List only paused queues.
        #[arg(long)]
        paused: bool,
    },
    /// Pause a queue, so that its jobs wait; running jobs finish
    #[command(
        before_help = "\
Examples:
  redrive queue pause orders --reason 'the ledger is being migrated'
  redrive queue pause orders --for 30m --reason 'gateway upgrade'
  redrive queue pause orders --until 2026-12-01T06:00Z --reason 'stocktaking'
",
        after_help = "\
A second pause replaces the end and the reason. A queue without jobs, letters and
workers is paused with a warning."
    )]
    Pause {
        /// Queue.
        queue: String,
        /// Time at which the pause ends, in UTC unless it has an offset [default: when it is
        /// resumed].
        #[arg(long, value_name = "TIME", value_parser = time::moment, allow_hyphen_values = true)]
        until: Option<SystemTime>,
        /// Time until the pause ends, such as 30m or 2d.
        #[arg(long = "for", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true, conflicts_with = "until")]
        duration: Option<Duration>,
        /// The reason, for other operators and the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Resume a paused queue
    #[command(
        before_help = "\
Example:
  redrive queue resume orders --reason 'the migration is done'
",
        after_help = "The exit code is 1 if the queue is not paused."
    )]
    Resume {
        /// Queue.
        queue: String,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Order, limit or take turns between the groups of a queue
    #[command(subcommand)]
    Groups(QueueGroupsCommand),
    /// Limit the rate at which jobs start, in all processes together
    #[command(
        before_help = "\
Examples:
  redrive queue limit mails --rate 100/1s --reason 'the provider allows 100 a second'
  redrive queue limit mails --rate 100/1s --burst 20 --reason 'no peaks'
  redrive queue limit mails --kind newsletter --rate 5/m --reason 'a new sender'
  redrive queue limit mails --each-group --rate 10/1s --reason 'the contract of each customer'
",
        after_help = "\
Within any time t, at most BURST + rate * t jobs start. Jobs that wait lose no attempt
and delay no others. A second limit replaces the first one."
    )]
    Limit {
        /// Queue.
        queue: String,
        /// Jobs per time, such as 100/1s, 5/m or 1000/30m.
        #[arg(long, value_name = "JOBS/TIME", value_parser = rate_limit::rate)]
        rate: Rate,
        /// Jobs that may start at once after a quiet time [default: the jobs of the rate].
        #[arg(long, value_name = "JOBS")]
        burst: Option<u32>,
        #[command(flatten)]
        jobs: LimitedJobs,
        /// The reason, for other operators and the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Remove a rate limit
    #[command(
        before_help = "\
Examples:
  redrive queue unlimit mails --reason 'a larger contract'
  redrive queue unlimit mails --kind newsletter
  redrive queue unlimit mails --each-group
",
        after_help = "The exit code is 1 if there is no such limit."
    )]
    Unlimit {
        /// Queue.
        queue: String,
        #[command(flatten)]
        jobs: LimitedJobs,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List the rate limits with the tokens that are left
    #[command(
        before_help = "\
Examples:
  redrive queue limits
  redrive queue limits mails
",
        after_help = "\
A job needs a token to start. Of a limit of each group, the tokens of the group that has
the fewest are shown. The exit code is 1 if there is no limit."
    )]
    Limits {
        /// Queue [default: all].
        queue: Option<String>,
    },
}

impl QueueCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match &self.subcommand {
            QueueSubcommand::Groups(command) => command.profession(),
            QueueSubcommand::List { .. } | QueueSubcommand::Limits { .. } => Profession::Reader,
            QueueSubcommand::Pause { .. }
            | QueueSubcommand::Resume { .. }
            | QueueSubcommand::Limit { .. }
            | QueueSubcommand::Unlimit { .. } => Profession::Operator,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            QueueSubcommand::List { paused } => list(&db, *paused, cx),
            QueueSubcommand::Pause {
                queue,
                until,
                duration,
                reason,
            } => {
                let end = match (until, duration) {
                    (Some(at), _) => PauseEnd::At(*at),
                    (None, Some(lasting)) => PauseEnd::After(*lasting),
                    (None, None) => PauseEnd::Resumed,
                };
                pause(&Queue::new(&db, queue)?, end, reason, cx)
            }
            QueueSubcommand::Resume { queue, reason } => {
                resume(&Queue::new(&db, queue)?, reason.as_deref(), cx)
            }
            QueueSubcommand::Groups(command) => command.run(&db, cx),
            QueueSubcommand::Limit {
                queue,
                rate,
                burst,
                jobs,
                reason,
            } => {
                let queue = Queue::new(&db, queue)?;
                rate_limit::set(&queue, jobs, *rate, *burst, reason, cx)
            }
            QueueSubcommand::Unlimit {
                queue,
                jobs,
                reason,
            } => {
                let queue = Queue::new(&db, queue)?;
                rate_limit::remove(&queue, jobs, reason.as_deref(), cx)
            }
            QueueSubcommand::Limits { queue } => rate_limit::list(&db, queue.as_deref(), cx),
        }
    }
}

fn pause(queue: &Queue, end: PauseEnd, reason: &str, cx: &mut Context<'_>) -> Result<Ending> {
    queue.pause(end, &operator::current(Some(reason)))?;
    let queues = queue.database().admin().queue_names(queue.name(), QUEUES)?;
    if !queues.is_known {
        let problem = no_queue(queue.name(), &queues.names);
        cx.say(format!(
            "warning: {problem}; if the name is wrong: redrive queue resume {}",
            quoted(queue.name())
        ));
    }
    if cx.global.json {
        json_line(cx.out, &json!({ "queue": queue.name(), "state": "paused" }))?;
        return Ok(Ending::Done);
    }
    let end = match end {
        PauseEnd::After(lasting) => format!("for {}", short(lasting)),
        PauseEnd::At(at) => format!("until {}", rfc3339(at)),
        PauseEnd::Resumed | _ => "until it is resumed".to_owned(),
    };
    writeln!(cx.out, "queue {} is paused {end}", one_line(queue.name()))?;
    Ok(Ending::Done)
}

fn resume(queue: &Queue, reason: Option<&str>, cx: &mut Context<'_>) -> Result<Ending> {
    if !queue.resume(&operator::current(reason))? {
        cx.say(format!(
            "queue {} is not paused: redrive queue list",
            one_line(queue.name())
        ));
        return Ok(Ending::NothingMatched);
    }
    let breaker = format!("queue:{}", queue.name());
    let breakers = queue.database().admin().breakers()?;
    let is_open = |of: &redrive::admin::Breaker| of.state != BreakerState::Closed;
    if breakers.iter().any(|of| of.name == breaker && is_open(of)) {
        cx.say(format!(
            "warning: its jobs still wait, because its breaker is open: redrive breaker close {}",
            quoted(&breaker)
        ));
    }
    if cx.global.json {
        json_line(
            cx.out,
            &json!({ "queue": queue.name(), "state": "running" }),
        )?;
    } else {
        writeln!(cx.out, "queue {} is resumed", one_line(queue.name()))?;
    }
    Ok(Ending::Done)
}

fn list(db: &Database, only_paused: bool, cx: &mut Context<'_>) -> Result<Ending> {
    let mut queues = db.admin().stats(None)?;
    queues.retain(|queue| queue.pause.is_some() || !only_paused);
    if queues.is_empty() {
        cx.say(match only_paused {
            true => "no queue is paused",
            false => "no queue has jobs, letters or a worker",
        });
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for queue in &queues {
            json_line(cx.out, &queue_json(queue))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Name("QUEUE"),
        Column::Word("STATE"),
        Column::Number("FOR"),
        Column::Number("ENDS IN"),
        Column::Number("READY"),
        Column::Number("DELAYED"),
        Column::Number("LEASED"),
        Column::Number("LETTERS"),
        Column::Text("BY"),
        Column::Text("REASON"),
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for queue in &queues {
        let pause = queue.pause.as_ref();
        table.row([
            queue.queue.clone(),
            state(queue).to_owned(),
            or_dash(pause.map(|pause| ago(pause.paused_at))),
            or_dash(pause.map(ends_in)),
            grouped(queue.ready),
            grouped(queue.delayed),
            grouped(queue.leased),
            grouped(queue.open + queue.quarantined),
            or_dash(pause.and_then(|pause| pause.person.clone())),
            or_dash(pause.and_then(|pause| pause.reason.clone())),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn queue_json(queue: &QueueStats) -> serde_json::Value {
    json!({
        "queue": queue.queue,
        "state": state(queue),
        "pause": queue.pause.as_ref().map(pause_json),
        "ready": queue.ready,
        "delayed": queue.delayed,
        "leased": queue.leased,
        "open": queue.open,
        "quarantined": queue.quarantined,
    })
}
