//! `redrive dlq policies set`: creates or replaces a policy.

use std::time::Duration;

use clap::Args;
use redrive::dlq::{Policy, PolicyBreaker, PolicyMode, UtcHours};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::filter::FilterArgs;
use crate::error::Result;
use crate::operator;
use crate::terminal::{json_line, one_line};
use crate::time::{self, short};

/// The library's default for the longest delay.
const DEFAULT_LONGEST_DELAY: Duration = Duration::from_hours(7 * 24);

/// Create a policy, or replace the policy of this name
///
/// Each tick redrives the oldest open letters that match, at most --batch. The first tick of a new
/// policy is due at once. Replacing a policy resets every option that is not given.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq policies set events orders --every 6h --batch 50 --generations 240
  redrive dlq policies set nightly orders --class Partner --every 1h --growth 2 \\
    --hours 22-6 --dry-run
")]
pub(super) struct SetPolicy {
    /// Name of the policy.
    name: String,
    /// Letters of this queue [default: every queue]. A condition may take its place.
    #[arg(help_heading = "Selection")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
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
    /// Redrive letters even if the breaker of their queue is open.
    #[arg(long, help_heading = "Action")]
    ignore_breaker: bool,
    /// Redrive nothing; log how many letters each tick would redrive.
    #[arg(long, help_heading = "Action", conflicts_with = "paused")]
    dry_run: bool,
    /// Do not tick until the policy is resumed.
    #[arg(long, help_heading = "Action")]
    paused: bool,
    /// The reason, for the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
}

impl SetPolicy {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.filter.letters(self.queue.as_deref())?;
        let mode = match (self.dry_run, self.paused) {
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
        db.dlq()
            .policies()
            .set(&policy, &operator::current(self.reason.as_deref()))?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "policy": self.name, "mode": mode.as_str() }),
            )?;
            return Ok(Ending::Done);
        }
        let name = one_line(&self.name);
        let (batch, every) = (self.batch, short(self.every));
        match mode {
            PolicyMode::Paused => writeln!(cx.out, "policy `{name}` is set and paused")?,
            PolicyMode::DryRun => writeln!(
                cx.out,
                "policy `{name}` logs every {every} what it would redrive"
            )?,
            PolicyMode::Active | _ => writeln!(
                cx.out,
                "policy `{name}` redrives up to {batch} letters every {every}"
            )?,
        }
        Ok(Ending::Done)
    }
}
