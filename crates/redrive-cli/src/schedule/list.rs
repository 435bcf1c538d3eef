//! `redrive schedule list`: the schedules with their last and next tick.

use std::time::{Duration, SystemTime};

use clap::Args;
use redrive::schedule::ScheduleStatus;
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Column, Table, json_line, one_line};
use crate::time::{ago, exact, rfc3339, short};

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
pub(super) struct ListSchedules {}

impl ListSchedules {
    #[expect(clippy::unused_self, reason = "every command has the same signature")]
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let schedules = cx.database()?.schedules().list()?;
        if schedules.is_empty() {
            cx.say("there are no schedules");
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for schedule in &schedules {
                json_line(cx.out, &schedule_json(schedule))?;
            }
            return Ok(Ending::Done);
        }
        let mut table = Table::new([
            Column::Text("SCHEDULE"),
            Column::Text("RHYTHM"),
            Column::Text("QUEUE"),
            Column::Text("KIND"),
            Column::Word("MISSED"),
            Column::Word("OVERLAP"),
            Column::Word("NEXT"),
            Column::Word("LAST"),
        ]);
        for schedule in &schedules {
            table.row([
                schedule.name.clone(),
                rhythm(schedule),
                schedule.queue.clone(),
                schedule.kind.clone(),
                schedule.missed.to_string(),
                schedule.overlap.to_string(),
                next_tick(schedule),
                schedule
                    .last_at
                    .map_or_else(|| "-".to_owned(), |at| format!("{} ago", ago(at))),
            ]);
        }
        table.write(cx.out)?;
        for schedule in &schedules {
            if let Some(error) = &schedule.last_trouble {
                let (name, error) = (one_line(&schedule.name), one_line(error));
                writeln!(cx.out, "\nThe last tick of `{name}` failed: {error}")?;
            }
        }
        Ok(Ending::Done)
    }
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

pub(super) fn schedule_json(schedule: &ScheduleStatus) -> Value {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "id": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "every_ms": schedule.every.map(ms),
        "queue": schedule.queue,
        "kind": schedule.kind,
        "payload": schedule.payload,
        "priority": schedule.priority,
        "max_attempts": schedule.max_attempts,
        "headers": schedule.headers,
        "missed": schedule.missed.as_str(),
        "missed_ticks": schedule.missed_ticks,
        "missed_age_ms": ms(schedule.missed_age),
        "overlap": schedule.overlap.as_str(),
        "next_at": schedule.next_at.map(rfc3339),
        "last_at": schedule.last_at.map(rfc3339),
        "last_error": schedule.last_trouble,
        "paused_at": schedule.paused_at.map(rfc3339),
        "created_at": rfc3339(schedule.created_at),
        "changed_at": rfc3339(schedule.changed_at),
    })
}
