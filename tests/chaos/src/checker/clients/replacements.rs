//! Checks enqueues that replace the job of their key, and keys with a window.

use std::collections::HashMap;

use super::Call;
use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Records, Rule};
use crate::role::WINDOW;

/// Checks that the client itself replaced the job in its answer.
pub(super) fn check(
    call: &Call<'_>,
    id: i64,
    at: i64,
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    findings: &mut Findings,
) {
    let was_replaced = jobs.get(&id).is_some_and(|job| {
        let mut altered = job.altered.iter();
        altered.any(|change| (call.at..=at).contains(&change.at) && *change.by == *call.process)
    });
    if !was_replaced && !records.terms.may_be_lost(at) {
        let text = format!(
            "{} got it as replaced, but did not replace it",
            call.process
        );
        findings.add(Rule::UniqueModes, Some(id), at, text);
    }
}

/// Returns the latest end of the window that the enqueue of a job opened. Its commit may have been slow.
pub(super) fn window_ends(job: &JobHistory) -> i64 {
    job.enqueued.1 + window()
}

fn window() -> i64 {
    i64::try_from(WINDOW.as_micros()).unwrap_or(i64::MAX)
}

/// Checks that the jobs of a key with a window were stored at least one window apart.
pub(super) fn check_windows(jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let mut by_key: HashMap<&str, Vec<&JobHistory>> = HashMap::new();
    for job in jobs.values() {
        let key = job.keys.first().map(|span| &*span.key);
        if let Some(key) = key.filter(|key| key.starts_with('w')) {
            by_key.entry(key).or_default().push(job);
        }
    }
    for (key, mut stored) in by_key {
        stored.sort_by_key(|job| job.enqueued);
        for pair in stored.windows(2) {
            let (began, at) = (pair[0].enqueued.0, pair[1].enqueued.1);
            if at - began < window() {
                let text = format!(
                    "it was stored {} µs after job {}, within the window of {key}",
                    at - began,
                    pair[0].job
                );
                findings.add(Rule::UniqueModes, Some(pair[1].job), at, text);
            }
        }
    }
}
