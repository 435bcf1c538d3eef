//! `redrive dlq policies set`: a new policy, or a changed one.

use std::time::Duration;

use clap::Args;
use redrive::{Hours, Policy, PolicyBreaker, PolicyMode};
use serde_json::json;

use super::super::filter::Filter;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{self, short};
use crate::error::Result;
use crate::render::{json_line, one_line};
use crate::{Ending, Streams, person};

/// Add a policy, or change the one of that name.
///
/// At each tick the oldest open letters that match go back, as with `dlq redrive`; a new policy has
/// its first tick at once. All of it is set anew: what is not given has its default.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq policies set events orders --every 6h --batch 50 --generations 240
  redrive dlq policies set nightly orders --class Partner --every 1h --growth 2 \\
    --hours 22-6 --dry-run")]
pub(super) struct Set {
    /// What it is called.
    name: String,
    /// Only letters of this queue, or a condition; without it, of every queue.
    queue: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// The time from one tick to the next: 1s to 366d.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1h", allow_hyphen_values = true)]
    every: Duration,
    /// The most letters that a tick sends back; 1 to 10,000.
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Leave a letter alone that was redriven this often; 1 to 100,000.
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    generations: u32,
    /// By how much the time to the tick grows with each generation of a letter; 1 to 100.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    growth: f64,
    /// The most that this time grows to [default: 7d].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, allow_hyphen_values = true)]
    longest_delay: Option<Duration>,
    /// Ticks only at these hours of the day, in UTC: 22-6 is from ten at night to six.
    #[arg(long, value_name = "FROM-TO")]
    hours: Option<Hours>,
    /// Send letters back into a queue although its breaker is open.
    #[arg(long)]
    ignore_breaker: bool,
    /// Send nothing back: tell, tick by tick, how many letters it would be.
    #[arg(long, conflicts_with = "paused")]
    dry_run: bool,
    /// Have no ticks until it is resumed.
    #[arg(long)]
    paused: bool,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

impl Set {
    pub(super) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let which = self.filter.letters(self.queue.as_deref())?;
        let mode = match (self.dry_run, self.paused) {
            (true, _) => PolicyMode::DryRun,
            (false, true) => PolicyMode::Paused,
            (false, false) => PolicyMode::Active,
        };
        let mut policy = Policy::new(&*self.name, which)
            .every(self.every)
            .batch(self.batch)
            .generations(self.generations)
            .growth(self.growth)
            .mode(mode);
        if let Some(longest) = self.longest_delay {
            policy = policy.longest_delay(longest);
        } else if self.every > Duration::from_hours(7 * 24) {
            policy = policy.longest_delay(self.every);
        }
        if let Some(hours) = self.hours {
            policy = policy.hours(hours);
        }
        if self.ignore_breaker {
            policy = policy.breaker(PolicyBreaker::Ignore);
        }
        let db = connect::database(arguments, Patience::Minute, io)?;
        db.set_policy(&policy, &person::act(self.why.as_deref()))?;
        if arguments.json {
            json_line(
                io.out,
                &json!({ "policy": self.name, "mode": mode.as_str() }),
            )?;
            return Ok(Ending::Done);
        }
        let name = one_line(&self.name);
        let (batch, every) = (self.batch, short(self.every));
        match mode {
            PolicyMode::Paused => writeln!(io.out, "the policy `{name}` is set, and paused")?,
            PolicyMode::DryRun => writeln!(
                io.out,
                "the policy `{name}` will tell every {every} what it would send back"
            )?,
            PolicyMode::Active | _ => writeln!(
                io.out,
                "the policy `{name}` sends up to {batch} letters back every {every}, from now on"
            )?,
        }
        Ok(Ending::Done)
    }
}
