//! `redrive dlq policies set`: creates or replaces a policy.

use std::time::Duration;

use clap::Args;
use redrive::dlq::{LetterFilter, LetterState, Policy, PolicyBreaker, PolicyMode, UtcHours};
use serde_json::{Value, json};

use super::backlog::Backlog;
use crate::context::{Context, Ending};
use crate::dlq::filter::FilterArgs;
use crate::error::{Error, Result};
use crate::operator;
use crate::terminal::{Json as _, one_line};
use crate::time::{self, short};

/// The library's default for the longest delay.
const DEFAULT_LONGEST_DELAY: Duration = Duration::from_hours(7 * 24);

/// Create a policy, or replace the policy of this name
///
/// Each tick redrives the oldest open letters that match, at most --batch. The first tick of a new
/// policy is due at once. Replacing a policy resets every option that is not given. A policy for
/// all letters of every queue needs --all, and without --yes that is a dry run.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq policies set events orders --every 6h --batch 50 --generations 240
  redrive dlq policies set nightly orders --class Partner --every 1h --growth 2 \\
    --hours 22-6 --dry-run
  redrive dlq policies set every-night --all --hours 22-6 --yes
")]
pub(crate) struct SetPolicy {
    /// Name of the policy.
    name: String,
    /// Letters of this queue. A condition may take its place.
    #[arg(help_heading = "Selection")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All letters of every queue.
    #[arg(long, help_heading = "Selection")]
    all: bool,
    /// Time between two ticks; 1s to 366d.
    #[arg(long, help_heading = "Pace", value_name = "TIME", value_parser = time::parse, default_value = "1h", allow_hyphen_values = true)]
    every: Duration,
    /// Letters per tick; 1 to 10,000.
    #[arg(long, help_heading = "Pace", value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Skip letters that were redriven this many times; 1 to 100,000.
    #[arg(long, help_heading = "Pace", value_name = "N", default_value_t = 10, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    generations: u32,
    /// Factor by which the delay of a letter grows with each generation; 1 to 100.
    #[arg(
        long,
        help_heading = "Pace",
        value_name = "FACTOR",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    growth: f64,
    /// Maximum delay with --growth [default: 7d].
    #[arg(long, help_heading = "Pace", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    longest_delay: Option<Duration>,
    /// Tick only in these hours of the day (UTC); 22-6 is from 22:00 to 06:00.
    #[arg(long, help_heading = "Pace", value_name = "FROM-TO")]
    hours: Option<UtcHours>,
    /// Redrive letters even if their queue is paused or its breaker is open.
    #[arg(long, help_heading = "Action")]
    ignore_breaker: bool,
    #[command(flatten)]
    mode: ModeArgs,
    /// Set the policy for --all.
    #[arg(long, help_heading = "Action", requires = "all")]
    yes: bool,
    /// The reason, for the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
}

/// The mode of the policy; active by default.
#[derive(Args, Debug)]
#[group(skip)]
struct ModeArgs {
    /// Redrive nothing; log how many letters each tick would redrive.
    #[arg(long, help_heading = "Action", conflicts_with = "paused")]
    dry_run: bool,
    /// Do not tick until the policy is resumed.
    #[arg(long, help_heading = "Action")]
    paused: bool,
}

impl SetPolicy {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.letters()?;
        let waiting = filter.clone().or_state(LetterState::Open);
        let mode = match (self.mode.dry_run, self.mode.paused) {
            (true, _) => PolicyMode::DryRun,
            (false, true) => PolicyMode::Paused,
            (false, false) => PolicyMode::Active,
        };
        let mut policy = Policy::new(&*self.name, filter)
            .every(self.every)
            .batch(self.batch)
            .generations(self.generations)
            .growth(self.growth)
            .mode(mode);
        if let Some(longest) = self.longest_delay {
            policy = policy.longest_delay(longest);
        } else if self.every > DEFAULT_LONGEST_DELAY {
            policy = policy.longest_delay(self.every);
        }
        if let Some(hours) = self.hours {
            policy = policy.hours(hours);
        }
        if self.ignore_breaker {
            policy = policy.breaker(PolicyBreaker::Ignore);
        }
        let db = cx.database()?;
        let backlog = Backlog {
            letters: db.dlq().count(&waiting)?.redrivable,
            batch: self.batch,
            every: self.every,
            hours: self.hours,
        };
        if self.all && !self.yes {
            return self.dry_run(backlog, cx);
        }
        db.dlq()
            .policies()
            .set(&policy, &operator::current(self.reason.as_deref()))?;
        let mut line = self.backlog_json(backlog);
        line["mode"] = mode.as_str().into();
        let name = one_line(&self.name);
        let (batch, every) = (self.batch, short(self.every));
        let text = match mode {
            PolicyMode::Paused => format!("policy `{name}` is set and paused"),
            PolicyMode::DryRun => {
                format!("policy `{name}` logs every {every} what it would redrive")
            }
            PolicyMode::Active | _ => format!(
                "policy `{name}` redrives up to {batch} letters every {every}; {}",
                backlog.text()
            ),
        };
        cx.print(&line, text)
    }

    /// The letters of the policy: those that meet the conditions, or all with --all.
    fn letters(&self) -> Result<LetterFilter> {
        let filter = self.filter.letters(self.queue.as_deref())?;
        match (self.all, filter == LetterFilter::new()) {
            (false, true) => Err(Error::new(
                "the policy would redrive the letters of every queue; name a queue or a condition, \
                 or confirm it with --all",
            )),
            (true, false) => Err(Error::new(
                "--all selects every letter and cannot be combined with a queue or a condition",
            )),
            (true, true) | (false, false) => Ok(filter),
        }
    }

    /// Shows what a policy for all letters would do.
    fn dry_run(&self, backlog: Backlog, cx: &mut Context<'_>) -> Result<Ending> {
        let mut line = self.backlog_json(backlog);
        line["dry_run"] = true.into();
        let text = format!(
            "policy `{}` would redrive up to {} letters of every queue every {}; {}.\n\
             Nothing was changed. To act, repeat the command with --yes.",
            one_line(&self.name),
            self.batch,
            short(self.every),
            backlog.text(),
        );
        cx.print(&line, text)
    }

    fn backlog_json(&self, backlog: Backlog) -> Value {
        json!({
            "id": self.name,
            "letters": backlog.letters,
            "ticks": backlog.ticks(),
            "backlog_ms": backlog.duration().json(),
        })
    }
}
