//! `redrive queue`: pauses, groups and rate limits of queues.

use std::time::{Duration, SystemTime};

use redrive::PauseEnd;
use redrive::admin::{Breaker, BreakerState};

use super::group::QueueGroupsCommand;
use super::rate_limit::{ListLimits, RemoveLimit, SetLimit, warn_if_unknown};
use crate::prelude::*;

subcommands! {
    /// Pause, resume and limit queues
    ///
    /// No job of a paused queue starts in any process until the pause ends. Running jobs finish, and
    /// enqueues continue. A pause is not an outage: no job probes it, and breakers have no effect on it.
    pub(crate) enum QueueCommand {
        Pause(PauseQueue),
        Resume(ResumeQueue),
        #[command(subcommand)]
        Groups(QueueGroupsCommand),
        Limit(SetLimit),
        Unlimit(RemoveLimit),
        Limits(ListLimits),
    }
}

/// Pause a queue, so that its jobs wait; running jobs finish
#[derive(Args, Debug)]
#[command(
    mut_arg("reason", |reason| reason.required(true)),
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
pub(crate) struct PauseQueue {
    /// Queue.
    queue: String,
    /// Time at which the pause ends, in UTC unless it has an offset [default: when it is
    /// resumed].
    #[arg(long, value_name = "TIME", value_parser = time::moment, allow_hyphen_values = true)]
    until: Option<SystemTime>,
    /// Time until the pause ends, such as 30m or 2d.
    #[arg(long = "for", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true, conflicts_with = "until")]
    duration: Option<Duration>,
    #[command(flatten)]
    reason: Reason,
}

/// Resume a paused queue
#[derive(Args, Debug)]
#[command(
    before_help = "Example:\n  redrive queue resume orders --reason 'the migration is done'\n",
    after_help = "The exit code is 1 if the queue is not paused."
)]
pub(crate) struct ResumeQueue {
    /// Queue.
    queue: String,
    #[command(flatten)]
    reason: Reason,
}

impl PauseQueue {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (end, text) = match (self.until, self.duration) {
            (Some(at), _) => (PauseEnd::At(at), format!("until {}", rfc3339(at))),
            (None, Some(time)) => (PauseEnd::After(time), format!("for {}", short(time))),
            (None, None) => (PauseEnd::Resumed, "until it is resumed".to_owned()),
        };
        let queue = cx.queue(&self.queue)?;
        queue.pause(end, &self.reason.operator())?;
        warn_if_unknown(&queue, |name| format!("resume {name}"), cx);
        cx.print(
            &json!({ "queue": queue.name(), "state": "paused" }),
            format!("queue {} is paused {text}", one_line(queue.name())),
        )
    }
}

impl ResumeQueue {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let queue = cx.queue(&self.queue)?;
        let name = one_line(queue.name());
        if !queue.resume(&self.reason.operator())? {
            return cx.nothing(format!("queue {name} is not paused: {Me} stats"));
        }
        let breaker = format!("queue:{}", queue.name());
        // It is resumed, whether or not this can be read.
        let breakers = queue.database().admin().breakers().unwrap_or_default();
        let is_open = |of: &Breaker| of.state != BreakerState::Closed;
        if breakers.iter().any(|of| of.name == breaker && is_open(of)) {
            cx.say(format!(
                "warning: its jobs still wait, because its breaker is open: {Me} breaker close {}",
                quoted(&breaker)
            ));
        }
        cx.print(
            &json!({ "queue": queue.name(), "state": "running" }),
            format!("queue {name} is resumed"),
        )
    }
}
