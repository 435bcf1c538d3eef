//! `redrive schedule show`: one schedule with its job or its policy.

use clap::Args;
use redrive::dlq::PolicyStatus;
use redrive::schedule::{Missed, ScheduleStatus};

use super::list::{letters, next_tick, no_schedule, rhythm, schedule_json};
use super::zoned::zoned;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{clean, json_line, one_line, pretty, write_labelled};
use crate::time::{exact, rfc3339};

/// Show a schedule and the job or the policy of its ticks
#[derive(Args, Debug)]
#[command(
    before_help = "\
Example:
  redrive schedule show nightly-report
",
    after_help = "The exit code is 1 if the schedule does not exist."
)]
pub(crate) struct ShowSchedule {
    /// Name of the schedule.
    name: String,
}

impl ShowSchedule {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(schedule) = cx.database()?.schedules().get(&self.name)? else {
            return no_schedule(&self.name, cx);
        };
        if cx.global.json {
            json_line(cx.out, &schedule_json(&schedule))?;
            return Ok(Ending::Done);
        }
        writeln!(
            cx.out,
            "schedule {}: {}\n",
            schedule.name,
            next_tick(&schedule)
        )?;
        for (label, text) in rows(&schedule) {
            write_labelled(cx.out, &format!("  {label:<9} "), &one_line(&text))?;
        }
        if let Some(job) = &schedule.job {
            let payload = pretty(job.payload.get());
            writeln!(cx.out, "\nPayload:\n{}", clean(&payload))?;
        }
        Ok(Ending::Done)
    }
}

fn rows(schedule: &ScheduleStatus) -> Vec<(&'static str, String)> {
    let zone = schedule.zone.as_deref();
    let next = match schedule.next_at {
        Some(at) => zoned(at, zone),
        None => "a worker has not read the cron line yet".to_owned(),
    };
    let missed = match schedule.missed {
        Missed::All => format!(
            "all, at most {} of at most {}",
            schedule.missed_ticks,
            exact(schedule.missed_age)
        ),
        Missed::Skip | Missed::Once | _ => schedule.missed.to_string(),
    };
    let mut rows = vec![("rhythm", rhythm(schedule)), ("next", next)];
    if let Some(job) = &schedule.job {
        rows.extend([
            ("queue", job.queue.clone()),
            ("kind", job.kind.clone()),
            ("priority", job.priority.to_string()),
            ("attempts", job.max_attempts.to_string()),
            ("missed", missed),
            ("overlap", schedule.overlap.to_string()),
        ]);
        let headers = job.headers.iter();
        rows.extend(headers.map(|(name, value)| ("header", format!("{name}: {value}"))));
    }
    if let Some(policy) = &schedule.policy {
        rows.extend(policy_rows(policy));
    }
    if let Some(at) = schedule.last_at {
        rows.push(("last", zoned(at, zone)));
    }
    if let Some(at) = schedule.paused_at {
        rows.push(("paused", rfc3339(at)));
    }
    if let Some(error) = &schedule.last_trouble {
        rows.push(("error", error.clone()));
    }
    rows.push(("changed", rfc3339(schedule.changed_at)));
    rows
}

fn policy_rows(policy: &PolicyStatus) -> [(&'static str, String); 4] {
    let delay = match policy.growth > 1.0 {
        true => format!(
            "grows by {} per generation, up to {}",
            policy.growth,
            exact(policy.longest_delay)
        ),
        false => "none: each tick".to_owned(),
    };
    let action = match (policy.counts_only, policy.ignores_breakers) {
        (true, _) => "counts the letters, and redrives none",
        (false, true) => "redrives, also into queues that are paused or whose breaker is open",
        (false, false) => "redrives",
    };
    [
        ("letters", letters(policy)),
        (
            "limits",
            format!(
                "{} per tick, {} generations",
                policy.batch, policy.generations
            ),
        ),
        ("delay", delay),
        ("action", action.to_owned()),
    ]
}
