//! `redrive schedule set`: creates or replaces a schedule.

use std::time::Duration;

use clap::ArgGroup;
use redrive::NewJob;
use redrive::schedule::{Missed, Overlap, Schedule};
use serde_json::Value;

use crate::jobs::JobArgs;
use crate::prelude::*;
use crate::time::zoned;

/// How many ticks to print.
const PREVIEW: usize = 5;

/// Create a schedule, or replace the schedule of this name
///
/// Prints the next five ticks first. A cron line has five fields: minute, hour, day of the month,
/// month and day of the week; a field of seconds may come first. Replacing a schedule resets every
/// option that is not given. A new cron line, zone or interval counts from now; other changes keep
/// the next tick, and a paused schedule stays paused.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("rhythm").required(true)),
    before_help = "\
Examples:
  redrive schedule set nightly-report reports report '{\"format\": \"pdf\"}' \\
    --cron '0 8 * * MON-FRI' --zone Europe/Berlin
  redrive schedule set clean-up house clean '{}' --every 15m --overlap skip
  redrive schedule set bills billing bill '{}' --cron '0 0 1 * *' \\
    --missed all --dry-run
"
)]
pub(crate) struct SetSchedule {
    /// Name of the schedule.
    name: String,
    /// Queue of the jobs.
    queue: String,
    /// Kind of the jobs.
    kind: String,
    /// Payload of the jobs as JSON.
    #[arg(allow_negative_numbers = true)]
    payload: String,
    #[command(flatten)]
    rhythm: RhythmArgs,
    /// Ticks that were missed: skip them, run the latest once, or run all, but at most 100 of the last 7 days.
    #[arg(
        long,
        help_heading = "Rhythm",
        value_name = "skip|once|all",
        default_value = "once"
    )]
    missed: Missed,
    /// While an earlier job is live: enqueue another (allow), or skip the tick.
    #[arg(
        long,
        help_heading = "Rhythm",
        value_name = "allow|skip",
        default_value = "allow"
    )]
    overlap: Overlap,
    #[command(flatten, next_help_heading = "Job")]
    job: JobArgs,
    #[command(flatten)]
    action: SetArgs,
}

/// When the schedule ticks.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rhythm")]
#[group(skip)]
pub(super) struct RhythmArgs {
    /// Cron line, such as '0 8 * * MON-FRI', or a name such as @daily.
    #[arg(long, value_name = "LINE", group = "rhythm")]
    cron: Option<String>,
    /// Time zone of the cron line, such as Europe/Berlin [default: UTC].
    #[arg(long, value_name = "ZONE", requires = "cron")]
    zone: Option<String>,
    /// Time between two ticks; 1s to 366d.
    #[arg(long, value_name = "TIME", value_parser = time::parse, group = "rhythm", allow_hyphen_values = true)]
    every: Option<Duration>,
}

/// Whether to set the schedule, and why.
#[derive(Args, Debug)]
#[command(next_help_heading = "Action")]
#[group(skip)]
pub(super) struct SetArgs {
    /// Print the next five ticks and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reason: Reason,
}

impl RhythmArgs {
    /// A schedule without a job or a policy.
    pub(super) fn schedule(&self, name: &str) -> Result<Schedule> {
        let schedule = match (&self.cron, self.every) {
            (Some(line), _) => Schedule::cron(name, line)?,
            (None, every) => Schedule::every(name, every.unwrap_or_default())?,
        };
        Ok(match &self.zone {
            Some(zone) => schedule.zone(zone)?,
            None => schedule,
        })
    }
}

impl SetArgs {
    /// Sets the schedule, unless this is a dry run, and prints `head`, the next ticks and the result, which it adds to a line
    /// of JSON.
    pub(super) fn set(
        &self,
        schedule: &Schedule,
        rhythm: &RhythmArgs,
        (head, mut line): (&str, Value),
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = cx.database()?;
        let ticks = db.schedules().preview(schedule, PREVIEW)?;
        let result = match self.dry_run {
            true => None,
            false => {
                let operator = self.reason.operator();
                Some(db.schedules().set(schedule, &operator)?.as_str())
            }
        };
        if !cx.global.json {
            writeln!(cx.out, "{head}The next ticks:")?;
            for tick in &ticks {
                writeln!(cx.out, "  {}", zoned(*tick, rhythm.zone.as_deref()))?;
            }
        }
        let ticks: Vec<String> = ticks.into_iter().map(rfc3339).collect();
        line["id"] = schedule.name().into();
        line["dry_run"] = self.dry_run.into();
        line["result"] = result.into();
        line["next_ticks"] = ticks.into();
        let text = match result {
            None => "Nothing was changed.".to_owned(),
            Some(result) => format!("schedule `{}` is {result}", one_line(schedule.name())),
        };
        cx.print(&line, text)
    }
}

impl SetSchedule {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let job = NewJob::raw(&self.kind, &self.payload)?;
        let schedule = self
            .rhythm
            .schedule(&self.name)?
            .job(&*self.queue, self.job.with_options(job))
            .missed(self.missed)
            .overlap(self.overlap);
        self.action
            .set(&schedule, &self.rhythm, ("", json!({})), cx)
    }
}
