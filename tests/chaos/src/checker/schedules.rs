//! Checks that each tick of a schedule is one job, was skipped, or was missed.

use std::collections::{HashMap, HashSet};

use redrive::schedule::Overlap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Rule, Run, grouped};
use crate::clock::micros;
use crate::db_trace::{Tick, TickOutcome};
use crate::role::standing::{StandingSchedule, TICK_KEY, schedule_of};

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let (records, jobs) = (run.records, &run.jobs);
    let ticks = records.ticks.iter();
    let by_schedule = grouped(ticks.map(|tick| (tick.schedule.as_str(), tick)));
    let mut expected = HashSet::new();
    for (name, ticks) in &by_schedule {
        let Some(schedule) = schedule_of(name) else {
            continue;
        };
        check_jobs(&schedule, ticks, jobs, &mut expected, findings);
        check_rhythm(&schedule, ticks, findings);
    }
    for job in jobs.values().filter(|job| job.key == Some(TICK_KEY)) {
        if !expected.contains(&job.job) {
            let text = "it belongs to no tick of a schedule";
            findings.add(Rule::Schedule, job.job, 0, text);
        }
    }
}

/// Checks that each tick that ran is one job, and that a skipped one names a live job.
fn check_jobs(
    schedule: &StandingSchedule,
    ticks: &[&Tick],
    jobs: &HashMap<i64, JobHistory>,
    expected: &mut HashSet<i64>,
    findings: &mut Findings,
) {
    for tick in ticks {
        let job = tick.job.and_then(|job| jobs.get(&job));
        let text = match tick.outcome {
            TickOutcome::Fired | TickOutcome::Triggered => {
                let is_stored = job.is_some_and(|job| job.key == Some(TICK_KEY));
                let is_first = tick.job.is_some_and(|job| expected.insert(job));
                let has_key = job.is_some_and(|job| !job.keys.is_empty());
                match (is_stored && is_first, schedule.overlap) {
                    (false, _) => "is not one job",
                    (true, Overlap::Skip) if !has_key => "does not prevent an overlap",
                    _ if tick.written < tick.at => "ran before its time",
                    _ => continue,
                }
            }
            TickOutcome::Overlapped => {
                let was_live = job.is_some_and(|job| {
                    let mut keys = job.keys.iter();
                    keys.any(|span| span.from.1 <= tick.written && span.visible_to >= tick.written)
                });
                match was_live {
                    true => continue,
                    false => "was skipped for a job that had ended",
                }
            }
            TickOutcome::Missed => continue,
        };
        let text = format!("the tick of {} at {} {text}", tick.schedule, tick.at);
        findings.add(Rule::Schedule, tick.job, tick.at, text);
    }
}

/// Checks that no tick is left out or repeated.
fn check_rhythm(schedule: &StandingSchedule, ticks: &[&Tick], findings: &mut Findings) {
    let interval = micros(schedule.every);
    let mut regular: Vec<&Tick> = ticks.to_vec();
    regular.retain(|tick| tick.outcome != TickOutcome::Triggered);
    let first = regular.first().map_or(0, |tick| tick.at);
    // A trigger at any other time may be skipped, too.
    regular.retain(|tick| {
        tick.outcome != TickOutcome::Overlapped || (tick.at - first) % interval == 0
    });
    for pair in regular.windows(2) {
        let (before, tick) = (pair[0], pair[1]);
        if tick.at - before.at != interval * tick.ticks {
            let text = format!(
                "{} ticks of {} follow {}",
                tick.ticks, tick.schedule, before.at
            );
            findings.add(Rule::Schedule, tick.job, tick.at, text);
        }
    }
}
