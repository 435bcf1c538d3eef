//! Checks that a success stores its follow-ups once, and that nothing else does.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Path, Rule};
use crate::role::follow_up_key;

pub(super) fn check(jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let mut stored: HashMap<i64, Vec<&JobHistory>> = HashMap::new();
    for job in jobs.values() {
        if let Some(key) = job.key.filter(|key| *key < 0) {
            stored.entry(key).or_default().push(job);
        }
    }
    for job in jobs.values().filter(|job| job.follow_ups > 0) {
        for (generation, tx) in &job.succeeded_in {
            let key = job.key.map(|key| follow_up_key(key, *generation));
            let children = key.and_then(|key| stored.remove(&key)).unwrap_or_default();
            let together = children.iter().filter(|child| child.stored_by == *tx);
            if children.len() == 1 && together.count() == 1 {
                findings.paths.take(Path::FollowedUp);
            } else {
                let text = format!(
                    "generation {generation} succeeded with {} follow-ups, or not in the same transaction",
                    children.len()
                );
                findings.add(Rule::FollowUp, Some(job.job), 0, text);
            }
        }
    }
    for child in stored.into_values().flatten() {
        let text = "it is a follow-up of no success";
        findings.add(Rule::FollowUp, Some(child.job), 0, text);
    }
}
