//! Checks that no job of a paused queue starts in a worker that knows of the pause.

use std::collections::HashMap;

use crate::checker::{Findings, IN_FLIGHT, Records, Rule, Run, grouped};
use crate::db_trace::Renewal;
use crate::history::{HandlerEvent, Phase};

/// A worker reads the pauses as often as it renews. After this many renewals it has read them, even if a fault
/// prevented one reading.
const RENEWALS: usize = 3;

/// A pause of a queue.
struct Pause<'a> {
    queue: &'a str,
    committed: i64,
    until: i64,
}

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let (records, jobs) = (run.records, &run.jobs);
    let pauses = pauses(records);
    let renewals = records.renewals.iter();
    let renewals = grouped(renewals.map(|one| ((&*one.process, &*one.queue), one)));
    // After a failover, a job of another queue may have the id, and a resume may be lost.
    let may_be_lost = |event: &&HandlerEvent| records.terms.claim_may_be_lost(event.at);
    for event in records.handlers.iter().filter(|event| !may_be_lost(event)) {
        let Some(job) = jobs.get(&event.job).filter(|_| event.phase == Phase::Begin) else {
            continue;
        };
        let Some(renewals) = renewals.get(&(&*event.process, &*job.queue)) else {
            continue;
        };
        let running = pauses
            .iter()
            .filter(|pause| *pause.queue == *job.queue)
            .filter(|pause| pause.committed < event.at && event.at < pause.until);
        let known = running.filter_map(|pause| pause.known_at(renewals));
        if let Some(known) = known.min().filter(|known| *known + IN_FLIGHT < event.at) {
            let text = format!(
                "{} started it {} µs after it had read that the queue was paused",
                event.process,
                event.at - known
            );
            findings.add(Rule::Paused, event.job, event.at, text);
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

impl Pause<'_> {
    /// Returns when a worker has certainly read it.
    fn known_at(&self, renewals: &[&Renewal]) -> Option<i64> {
        let since = renewals.partition_point(|renewal| renewal.began <= self.committed + IN_FLIGHT);
        renewals.get(since + RENEWALS - 1).map(|last| last.at)
    }
}
