//! Checks that no job of a paused queue starts in a worker that knows of the pause.

use std::collections::HashMap;

use crate::checker::{Findings, IN_FLIGHT, Records, Rule, Run};

/// A worker reads the pauses as often as it renews. After this many renewals it has read them, even if a fault
/// prevented one reading.
const READS: usize = 3;

/// A pause of a queue.
struct Pause<'a> {
    queue: &'a str,
    committed: i64,
    until: i64,
}

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let pauses = pauses(run.records);
    for attempt in run.attempts() {
        let (at, job) = (attempt.begin.at, run.job_of(attempt));
        let worker = run.lease_of(attempt).and_then(|span| span.worker);
        let Some(worker) = worker else { continue };
        let is_known = pauses.iter().any(|pause| {
            let is_running = pause.committed < at && at < pause.until;
            let since = pause.committed + IN_FLIGHT;
            let has_read = || run.has_read(worker, since, at - IN_FLIGHT, READS);
            *pause.queue == *job.queue && is_running && has_read()
        });
        if is_known {
            let text = format!(
                "{} started it after it had read that the queue was paused",
                attempt.begin.process
            );
            findings.add(Rule::Paused, job.job, at, text);
        }
    }
}

/// Returns the pauses, each until it was changed or ended.
fn pauses(records: &Records) -> Vec<Pause<'_>> {
    let mut pauses: Vec<Pause<'_>> = Vec::new();
    let mut current: HashMap<&str, usize> = HashMap::new();
    for change in &records.pauses {
        if let Some(last) = current.insert(&change.queue, pauses.len()) {
            pauses[last].until = pauses[last].until.min(change.at);
        }
        pauses.push(Pause {
            queue: &change.queue,
            committed: change.committed,
            until: change.ends_at,
        });
    }
    pauses
}
