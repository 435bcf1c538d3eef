//! `redrive schedule list`: the schedules with their last and next tick.

use std::time::SystemTime;

use clap::Args;
use redrive::schedule::ScheduleStatus;
use serde::Serialize;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Json as _, line, one_line, table};
use crate::time::{ago, exact, short};

/// List schedules with their last and next tick
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive schedule list
  redrive schedule list --json | jq -r 'select(.last_error) | .id'
",
    after_help = "The exit code is 1 if there are no schedules."
)]
pub(crate) struct ListSchedules {}

impl ListSchedules {
    #[expect(clippy::unused_self, reason = "every command has the same signature")]
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let schedules = cx.database()?.schedules().list()?;
        let last = |schedule: &ScheduleStatus| match schedule.last_at {
            Some(at) => format!("{} ago", ago(at)),
            None => "-".to_owned(),
        };
        let table = table!(schedule in &schedules => {
            Text "SCHEDULE" => schedule.name,
            Text "RHYTHM" => rhythm(schedule),
            Text "QUEUE" => schedule.queue,
            Text "KIND" => schedule.kind,
            Word "MISSED" => schedule.missed,
            Word "OVERLAP" => schedule.overlap,
            Word "NEXT" => next_tick(schedule),
            Word "LAST" => last(schedule),
        });
        let ending = cx.list("there are no schedules", &schedules, schedule_json, &table)?;
        let failed = schedules
            .iter()
            .map(|schedule| (&*schedule.name, schedule.last_trouble.as_deref()));
        cx.write_troubles(failed)?;
        Ok(ending)
    }
}

/// Reports that no schedule has this name.
pub(super) fn no_schedule(name: &str, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(format!("schedule `{}` does not exist", one_line(name)))
}

/// The cron line with its zone, or the interval.
pub(super) fn rhythm(schedule: &ScheduleStatus) -> String {
    match (&schedule.cron, &schedule.zone, schedule.every) {
        (Some(line), Some(zone), _) => format!("{line} {zone}"),
        (Some(line), None, _) => line.clone(),
        (None, _, every) => format!("every {}", exact(every.unwrap_or_default())),
    }
}

pub(super) fn next_tick(schedule: &ScheduleStatus) -> String {
    if schedule.paused_at.is_some() {
        return "paused".to_owned();
    }
    match schedule
        .next_at
        .map(|at| at.duration_since(SystemTime::now()))
    {
        // A worker computes it.
        None => "unknown".to_owned(),
        Some(Ok(wait)) => format!("in {}", short(wait)),
        Some(Err(_)) => "due".to_owned(),
    }
}

pub(super) fn schedule_json(schedule: &ScheduleStatus) -> impl Serialize {
    line!(schedule =>
        id = &schedule.name, cron, zone, every_ms = schedule.every.json(), queue, kind, payload,
        priority, max_attempts, headers, missed, missed_ticks,
        missed_age_ms = schedule.missed_age.json(), overlap, next_at, last_at,
        last_error = &schedule.last_trouble, paused_at, created_at, changed_at,
    )
}
