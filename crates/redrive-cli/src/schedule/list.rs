//! `redrive schedule list`: the schedules with their last and next tick.

use redrive::dlq::{PolicyStatus, stored_conditions};
use redrive::schedule::ScheduleStatus;

use crate::prelude::*;

pub(super) fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let schedules = cx.database()?.schedules().list()?;
    let last = |at| format!("{} ago", ago(at));
    let table = table!(schedule in &schedules => {
        Text "SCHEDULE" => schedule.name,
        Text "RHYTHM" => rhythm(schedule),
        Text "DOES" => does(schedule),
        Word "MISSED" => schedule.missed,
        Word "OVERLAP" => schedule.overlap,
        Word "NEXT" => next_tick(schedule),
        Word "LAST" => schedule.last_at.map_or_else(|| "-".to_owned(), last),
    });
    let ending = cx.list("there are no schedules", &schedules, schedule_json, &table)?;
    for schedule in schedules.iter().filter(|_| !cx.global.json) {
        if let Some(error) = &schedule.last_trouble {
            let (name, error) = (one_line(&schedule.name), one_line(error));
            writeln!(cx.out, "\nThe last tick of `{name}` failed: {error}")?;
        }
    }
    Ok(ending)
}

/// Reports that no schedule has this name.
pub(super) fn no_schedule(name: &str, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(format!("schedule `{}` does not exist", one_line(name)))
}

/// What a tick does.
fn does(schedule: &ScheduleStatus) -> String {
    match (&schedule.job, &schedule.policy) {
        (Some(job), _) => format!("enqueues {} in {}", job.kind, job.queue),
        (None, Some(policy)) => format!("redrives {}", letters(policy)),
        (None, None) => "-".to_owned(),
    }
}

pub(super) fn letters(policy: &PolicyStatus) -> String {
    match &*stored_conditions(policy.letters.get()) {
        [] => "all letters".to_owned(),
        conditions => conditions.join(" "),
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
    if schedule.is_held {
        return "queue held".to_owned();
    }
    match schedule.next_at.map(|at| at.duration_since(time::now())) {
        // A worker computes it.
        None => "unknown".to_owned(),
        Some(Ok(wait)) => format!("in {}", short(wait)),
        Some(Err(_)) => "due".to_owned(),
    }
}

pub(super) fn schedule_json(schedule: &ScheduleStatus) -> impl Serialize {
    let job = schedule.job.as_ref();
    let policy = |policy: &PolicyStatus| {
        json!(object!(policy =>
            filter = policy.letters.json(), batch, generations, growth, counts_only,
        ))
    };
    object!(schedule =>
        id = &schedule.name, cron, zone, every_ms = schedule.every.json(),
        queue = job.map(|job| job.queue.json()), kind = job.map(|job| job.kind.json()),
        payload = job.map(|job| job.payload.json()),
        priority = job.map(|job| job.priority), max_attempts = job.map(|job| job.max_attempts),
        headers = job.map(|job| job.headers.json()),
        policy = schedule.policy.as_ref().map(policy), is_held, missed = job.map(|_| schedule.missed.json()),
        overlap = job.map(|_| schedule.overlap.json()), next_at, last_at,
        last_error = &schedule.last_trouble, paused_at, created_at, changed_at,
    )
}
