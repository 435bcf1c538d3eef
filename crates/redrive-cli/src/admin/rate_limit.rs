//! `redrive queue limit`, `unlimit` and `limits`: rate limits of queues, kinds and groups.

use std::time::Duration;

use redrive::admin::ListedRateLimit;
use redrive::{Queue, RateLimit, RateLimited};

use crate::dlq::{missing_queue, none_in};
use crate::prelude::*;

/// Parses a rate such as `100/1s` or `5/m`.
fn rate(text: &str) -> std::result::Result<(u32, Duration), &'static str> {
    time::per(text).ok_or("expected a number of jobs per time, such as 100/1s, 5/m or 1000/30m")
}

/// Limit the rate at which jobs start, in all processes together
#[derive(Args, Debug)]
#[command(
    mut_arg("reason", |reason| reason.required(true)),
    before_help = "\
Examples:
  redrive queue limit mails --rate 100/1s --reason 'limit of the provider'
  redrive queue limit mails --rate 100/1s --burst 20 --reason 'no peaks'
  redrive queue limit mails --kind newsletter --rate 5/m --reason 'a new sender'
  redrive queue limit mails --each-group --rate 10/1s --reason 'by contract'
",
    after_help = "\
Within any time t, at most BURST + rate * t jobs start. Jobs that wait lose no attempt
and delay no others. A second limit replaces the first one."
)]
pub(crate) struct SetLimit {
    /// Queue.
    queue: String,
    /// Jobs per time, such as 100/1s, 5/m or 1000/30m.
    #[arg(long, value_name = "JOBS/TIME", value_parser = rate)]
    rate: (u32, Duration),
    /// At most this many jobs start at once after a quiet time [default: the jobs of the rate].
    #[arg(long, value_name = "JOBS")]
    burst: Option<u32>,
    #[command(flatten)]
    jobs: LimitedJobs,
    #[command(flatten)]
    reason: Reason,
}

/// Remove a rate limit
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive queue unlimit mails --reason 'a larger contract'
  redrive queue unlimit mails --kind newsletter
  redrive queue unlimit mails --each-group
",
    after_help = "The exit code is 1 if there is no such limit."
)]
pub(crate) struct RemoveLimit {
    /// Queue.
    queue: String,
    #[command(flatten)]
    jobs: LimitedJobs,
    #[command(flatten)]
    reason: Reason,
}

/// List the rate limits with the tokens that are left
#[derive(Args, Debug)]
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
pub(crate) struct ListLimits {
    /// Queue [default: all].
    queue: Option<String>,
}

/// The jobs that a limit counts.
#[derive(Debug, Args)]
struct LimitedJobs {
    /// The limit of the jobs of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// The limit of each group. Jobs without a group are not limited.
    #[arg(long, conflicts_with = "kind")]
    each_group: bool,
}

impl LimitedJobs {
    /// What is limited, in words, and by which options.
    fn limited(&self, queue: &str) -> (RateLimited<'_>, String, String) {
        let queue = one_line(queue);
        match (&self.kind, self.each_group) {
            (Some(kind), _) => (
                RateLimited::Kind(kind),
                format!("kind {} in queue {queue}", one_line(kind)),
                format!(" --kind={}", quoted(kind)),
            ),
            (None, true) => (
                RateLimited::EachGroup,
                format!("each group of queue {queue}"),
                " --each-group".to_owned(),
            ),
            (None, false) => (RateLimited::Queue, format!("queue {queue}"), String::new()),
        }
    }
}

/// Warns about a queue that does not exist yet, and names the command that undoes the change.
pub(super) fn warn_if_unknown(queue: &Queue, undo: impl Fn(&str) -> String, cx: &mut Context<'_>) {
    // The change is made, whether or not this can be read.
    if let Ok(Some(problem)) = missing_queue(queue.name(), queue.database()) {
        let undo = undo(&operand(queue.name()));
        cx.say(format!(
            "warning: {problem}; if the name is wrong: {Me} queue {undo}"
        ));
    }
}

impl SetLimit {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let SetLimit { burst, jobs, .. } = self;
        let (starts, period) = self.rate;
        let queue = cx.queue(&self.queue)?;
        let limit = RateLimit::per(starts, period).with(*burst, RateLimit::burst);
        let (limited, shown, of) = jobs.limited(queue.name());
        queue.limit_rate(limited, limit, &self.reason.operator())?;
        warn_if_unknown(&queue, |name| format!("unlimit{of} {name}"), cx);
        let burst = burst.unwrap_or(starts);
        cx.print(
            &json!({
                "queue": queue.name(),
                "kind": jobs.kind,
                "each_group": jobs.each_group,
                "starts": starts,
                "period_ms": period.json(),
                "burst": burst,
            }),
            format!(
                "{shown} is limited to {} starts per {}, with a burst of {}",
                grouped(u64::from(starts)),
                exact(period),
                grouped(u64::from(burst)),
            ),
        )
    }
}

impl RemoveLimit {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (queue, jobs) = (cx.queue(&self.queue)?, &self.jobs);
        let (limited, shown, _) = jobs.limited(queue.name());
        if !queue.unlimit_rate(limited, &self.reason.operator())? {
            return cx.nothing(format!("{shown} has no rate limit: {Me} queue limits"));
        }
        cx.print(
            &json!({ "queue": queue.name(), "kind": jobs.kind, "each_group": jobs.each_group }),
            format!("{shown} has no rate limit any more"),
        )
    }
}

impl ListLimits {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let limits = cx.database()?.admin().rate_limits(self.queue.as_deref())?;
        if limits.is_empty() {
            return none_in(self.queue.as_deref(), "there is no rate limit", cx);
        }
        let jobs = |limit: &ListedRateLimit| match (&limit.kind, limit.each_group) {
            (Some(kind), _) => kind.clone(),
            (None, true) => "(each group)".to_owned(),
            (None, false) => "(all)".to_owned(),
        };
        let table = table!(limit in &limits => {
            Name "QUEUE" => limit.queue,
            Name "JOBS" => jobs(limit),
            Number "STARTS" => grouped(u64::from(limit.starts)),
            Number "PER" => exact(limit.period),
            Number "BURST" => grouped(u64::from(limit.burst)),
            Number "TOKENS" => grouped(limit.tokens.max(0).unsigned_abs()),
            Text "BY" => limit.person.as_deref().unwrap_or("-"),
            Text "REASON" => limit.reason.as_deref().unwrap_or("-"),
        });
        cx.items(&limits, limit_json, &table)
    }
}

fn limit_json(limit: &ListedRateLimit) -> impl Serialize {
    object!(limit =>
        queue, kind, each_group, starts, period_ms = limit.period.json(), burst, tokens, set_at,
        person, reason,
    )
}
