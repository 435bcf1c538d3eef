//! Checks that each tick of the schedule is one job, or was missed.

use std::collections::{HashMap, HashSet};

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Path, Records, Rule};
use crate::role::standing::{INTERVAL, TICK_KEY};

pub(super) fn check(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let interval = i64::try_from(INTERVAL.as_micros()).unwrap_or(i64::MAX);
    let mut expected = HashSet::new();
    for tick in &records.ticks {
        let Some(job) = tick.job else {
            findings.paths.take(Path::TickMissed);
            continue;
        };
        findings.paths.take(Path::Ticked);
        let is_stored = jobs.get(&job).is_some_and(|job| job.key == Some(TICK_KEY));
        if !is_stored || !expected.insert(job) {
            let text = format!("the tick at {} is not one job", tick.at);
            findings.add(Rule::Schedule, Some(job), tick.at, text);
        }
    }
    for pair in records.ticks.windows(2) {
        if pair[1].at - pair[0].at != interval * pair[1].ticks {
            let text = format!("{} ticks follow {}", pair[1].ticks, pair[0].at);
            findings.add(Rule::Schedule, pair[1].job, pair[1].at, text);
        }
    }
    for job in jobs.values().filter(|job| job.key == Some(TICK_KEY)) {
        if !expected.contains(&job.job) {
            let text = "it belongs to no tick of the schedule";
            findings.add(Rule::Schedule, Some(job.job), 0, text);
        }
    }
}
