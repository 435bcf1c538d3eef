//! Checks the starts in each window of a rate limit, by the handlers' own log.

use crate::checker::{Findings, Rule, Run, grouped};
use crate::db_trace::RateLimit;
use crate::history::Phase;

/// How many starts a stopped or overloaded process may log late: its slots.
const LATE: f64 = 4.0;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let (records, jobs) = (run.records, &run.jobs);
    for limit in &records.rate_limits {
        let begins = records.handlers.iter();
        let begins = begins.filter(|event| event.phase == Phase::Begin);
        let buckets = grouped(begins.filter_map(|event| {
            let job = jobs.get(&event.job)?;
            let group = job.group.as_deref().filter(|_| limit.is_of_each_group);
            // A limit of each group does not concern jobs without a group.
            let is_limited =
                *job.queue == *limit.queue && limit.is_of_each_group == group.is_some();
            is_limited.then_some((group, (event.at, event.job)))
        }));
        for (group, mut starts) in buckets {
            starts.sort_unstable();
            check_windows(limit, group, &starts, findings);
        }
    }
}

/// Each start fills a bucket that leaks at the rate of the limit. It holds at most the burst if and only if every
/// window keeps to the limit.
fn check_windows(
    limit: &RateLimit,
    group: Option<&str>,
    starts: &[(i64, i64)],
    findings: &mut Findings,
) {
    let (mut level, mut last) = (0.0_f64, None);
    for &(at, job) in starts {
        let waited = last.map_or(0.0, |last| seconds(at - last));
        level = (level - waited * limit.per_second).max(0.0) + 1.0;
        last = Some(at);
        if level > limit.burst + LATE {
            let of_group = group.map_or_else(String::new, |group| format!("the group {group} of "));
            let text = format!(
                "it started in a window of {of_group}{} with {level:.1} starts more than the rate allows, and a burst of {}",
                limit.queue, limit.burst
            );
            findings.add(Rule::RateLimit, job, at, text);
            level = 0.0;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of one run")]
fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1_000_000.0
}
