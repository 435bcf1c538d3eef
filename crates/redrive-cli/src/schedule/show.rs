//! `redrive schedule show`: one schedule with its job or its policy.

use redrive::dlq::PolicyStatus;
use redrive::schedule::ScheduleStatus;

use super::list::{letters, next_tick, no_schedule, rhythm, schedule_json};
use crate::prelude::*;
use crate::time::zoned;

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
            return cx.json(&schedule_json(&schedule));
        }
        writeln!(
            cx.out,
            "schedule {}: {}\n",
            one_line(&schedule.name),
            next_tick(&schedule)
        )?;
        details(&schedule).write(9, cx.out)?;
        if let Some(job) = &schedule.job {
            let payload = pretty(job.payload.get());
            writeln!(cx.out, "\nPayload:\n{}", clean(&payload))?;
        }
        Ok(Ending::Done)
    }
}

fn details(schedule: &ScheduleStatus) -> Details {
    let zone = schedule.zone.as_deref();
    let next = match schedule.next_at {
        Some(at) => zoned(at, zone),
        None => "a worker has not read the cron line yet".to_owned(),
    };
    let mut details = Details::default();
    details.add("rhythm", rhythm(schedule)).add("next", next);
    if let Some(job) = &schedule.job {
        details
            .add("queue", &job.queue)
            .add("kind", &job.kind)
            .add("priority", job.priority)
            .add("attempts", job.max_attempts)
            .add("missed", schedule.missed)
            .add("overlap", schedule.overlap);
        for (name, value) in &job.headers {
            details.add("header", format!("{name}: {value}"));
        }
    }
    if let Some(policy) = &schedule.policy {
        add_policy(policy, &mut details);
    }
    details
        .some("last", schedule.last_at.map(|at| zoned(at, zone)))
        .some("paused", schedule.paused_at.map(rfc3339))
        .some("error", schedule.last_trouble.as_ref())
        .add("changed", rfc3339(schedule.changed_at));
    details
}

fn add_policy(policy: &PolicyStatus, details: &mut Details) {
    let delay = match policy.growth > 1.0 {
        true => format!("grows by {} per generation", policy.growth),
        false => "none: each tick".to_owned(),
    };
    let action = match policy.counts_only {
        true => "counts the letters, and redrives none",
        false => "redrives",
    };
    let (batch, generations) = (policy.batch, policy.generations);
    let limits = format!("{batch} per tick, {generations} generations");
    details
        .add("letters", letters(policy))
        .add("limits", limits)
        .add("delay", delay)
        .add("action", action);
}
