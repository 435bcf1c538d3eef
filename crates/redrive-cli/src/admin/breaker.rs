//! `redrive breaker`: circuit breakers of dependencies and queues.

use std::time::Duration;

use redrive::admin::{Breaker, BreakerState};

use crate::dlq::missing_queue;
use crate::prelude::*;

subcommands! {
    /// List, open and close circuit breakers
    ///
    /// A breaker belongs to a dependency that handlers name, or to a queue; the breaker of a queue is
    /// called `queue:NAME`. While it is open, its jobs wait and lose no attempts. Single jobs probe the
    /// dependency, and the breaker closes after the first success. To stop a queue on purpose, use
    /// `redrive queue pause`, which makes no probe.
    pub(crate) enum BreakerCommand {
        List(ListBreakers),
        Open(OpenBreaker),
        Close(CloseBreaker),
    }
}

/// List the breakers that are not closed
#[derive(Args, Debug)]
#[command(
    before_help = "Example:\n  redrive breaker list\n",
    after_help = "The exit code is 1 if no breaker matches."
)]
pub(crate) struct ListBreakers {
    /// Also list closed breakers.
    #[arg(long)]
    all: bool,
}

/// Open a breaker, so that its jobs wait; running jobs continue
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive breaker open queue:orders --reason 'the gateway is down'
  redrive breaker open payments-api --for 30m
",
    after_help = "\
A breaker of an unknown queue or dependency is opened with a warning. A queue is known if
it has jobs, letters or a worker, and a dependency once a handler has reported an outage."
)]
pub(crate) struct OpenBreaker {
    /// Dependency, or `queue:` and the name of a queue.
    #[arg(value_name = "NAME")]
    name: String,
    /// Time until a job probes the dependency [default: until the breaker is closed].
    #[arg(long = "for", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    duration: Option<Duration>,
    #[command(flatten)]
    reason: Reason,
}

/// Close a breaker, so that its jobs are claimed again
#[derive(Args, Debug)]
#[command(
    before_help = "Example:\n  redrive breaker close queue:orders\n",
    after_help = "The exit code is 1 if the breaker was not open."
)]
pub(crate) struct CloseBreaker {
    /// Dependency, or `queue:` and the name of a queue.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    reason: Reason,
}

impl OpenBreaker {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (db, name) = (cx.database()?, &*self.name);
        // A breaker that an operator opened has no kinds until a handler reports an outage.
        let is_reported = |breaker: &Breaker| breaker.name == name && !breaker.kinds.is_empty();
        let is_dependency = db.admin().breakers()?.iter().any(is_reported);
        let shown = one_line(name);
        // A breaker of such a name stops no job.
        let problem = match name.strip_prefix("queue:") {
            // The database refuses an empty name.
            Some("") => None,
            Some(queue) => missing_queue(queue, &db)?,
            None if is_dependency => None,
            None => Some(match missing_queue(name, &db)? {
                Some(_) => format!(
                    "no handler has reported an outage of a dependency `{shown}`, so no job waits for it yet"
                ),
                None => format!(
                    "there is no dependency `{shown}`, but a queue; its breaker is `queue:{shown}`"
                ),
            }),
        };
        let operator = self.reason.operator();
        db.admin().open_breaker(name, self.duration, &operator)?;
        if let Some(problem) = problem {
            cx.say(format!(
                "warning: {problem}; if the name is wrong: {Me} breaker close {}",
                operand(name)
            ));
        }
        let until = match self.duration {
            Some(duration) => format!("for {}, then a job probes it", short(duration)),
            None => "until it is closed".to_owned(),
        };
        cx.print(
            &json!({ "id": name, "state": "open" }),
            format!("breaker {shown} is open {until}"),
        )
    }
}

impl CloseBreaker {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (db, shown) = (cx.database()?, one_line(&self.name));
        let operator = self.reason.operator();
        if !db.admin().close_breaker(&self.name, &operator)? {
            return cx.nothing(format!("breaker {shown} is not open: {Me} breaker list"));
        }
        cx.print(
            &json!({ "id": self.name, "state": "closed" }),
            format!("breaker {shown} is closed"),
        )
    }
}

impl ListBreakers {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut breakers = cx.database()?.admin().breakers()?;
        breakers.retain(|breaker| self.all || breaker.state != BreakerState::Closed);
        let since = |breaker: &Breaker| match breaker.state {
            BreakerState::Open | BreakerState::HalfOpen => breaker.opened_at,
            BreakerState::Closed | _ => breaker.changed_at,
        };
        let table = table!(breaker in &breakers => {
            Text "BREAKER" => breaker.name,
            Word "STATE" => breaker.state,
            Word "CAUSE" => breaker.cause,
            Number "FOR" => ago(since(breaker)),
            Number "PROBE IN" => probe_in(breaker),
            Number "OUTAGES" => grouped(breaker.outages),
            Text "MESSAGE" => breaker.message.as_deref().unwrap_or("-"),
        });
        cx.list("no breaker is open", &breakers, breaker_json, &table)
    }
}

/// The time until the next probe.
fn probe_in(breaker: &Breaker) -> String {
    match (breaker.state, breaker.probe_at) {
        (BreakerState::HalfOpen, _) => "now".to_owned(),
        (BreakerState::Open, at) => time::wait_for(at),
        (BreakerState::Closed | _, _) => "-".to_owned(),
    }
}

fn breaker_json(breaker: &Breaker) -> impl Serialize {
    object!(breaker =>
        id = &breaker.name, state, cause, message, kinds, outages, probes,
        wait_ms = breaker.wait.json(), opened_at, probe_at, changed_at,
    )
}
