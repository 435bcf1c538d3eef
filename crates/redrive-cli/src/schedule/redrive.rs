//! `redrive schedule redrive`: creates or replaces a schedule that redrives letters.

use clap::ArgGroup;
use redrive::dlq::{LetterFilter, LetterState, Policy};

use super::set::{RhythmArgs, SetArgs};
use crate::prelude::*;

/// Create a schedule that redrives letters, or replace the schedule of this name
///
/// Each tick redrives the oldest open letters that match and whose unique keys are free, at most
/// --batch. Prints the next five ticks first. Replacing a schedule resets every option that is not
/// given. `schedule trigger` redrives at once.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("rhythm").required(true)),
    before_help = "\
Examples:
  redrive schedule redrive events orders --every 6h --batch 50 --generations 240
  redrive schedule redrive nightly orders class=Partner \\
    --cron '0 22-23,0-5 * * *' --growth 2 --count-only
  redrive schedule redrive daily --all --cron '0 3 * * *' --zone Europe/Berlin
"
)]
pub(crate) struct SetPolicy {
    /// Name of the schedule.
    name: String,
    #[command(flatten)]
    words: Words,
    /// All letters of every queue.
    #[arg(long, help_heading = "Selection")]
    all: bool,
    #[command(flatten)]
    rhythm: RhythmArgs,
    /// Letters per tick; 1 to 10,000.
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Skip letters that were redriven this many times; 1 to 100,000.
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = 10, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    generations: u32,
    /// Factor by which the delay of a letter grows with each generation, from --every or 1h to 7d; 1 to 100.
    #[arg(
        long,
        help_heading = "Limits",
        value_name = "FACTOR",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    growth: f64,
    /// Redrive nothing; `schedule history` and the audit log tell what each tick would redrive.
    #[arg(long, help_heading = "Action")]
    count_only: bool,
    #[command(flatten)]
    action: SetArgs,
}

impl SetPolicy {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let letters = self.letters()?;
        let waiting = letters.clone().or_state(LetterState::Open);
        let policy = Policy::new(letters)
            .batch(self.batch)
            .generations(self.generations)
            .growth(self.growth)
            .with_flag(self.count_only, Policy::count_only);
        let schedule = self.rhythm.schedule(&self.name)?.redrive(policy);
        let db = cx.database()?;
        let letters = db
            .dlq()
            .count(&waiting.generation_to(self.generations - 1))?;
        let ticks = letters.div_ceil(u64::from(self.batch));
        let (waiting, in_ticks) = (counted(letters, "letter"), counted(ticks, "tick"));
        let head = format!("at most {waiting} to redrive now, in {in_ticks}.\n\n");
        let line = json!({ "letters": letters, "ticks": ticks });
        self.action.set(&schedule, &self.rhythm, (&head, line), cx)
    }

    /// The letters of the policy: those that meet the conditions, or all with --all.
    fn letters(&self) -> Result<LetterFilter> {
        let filter = self.words.letters()?;
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
}
