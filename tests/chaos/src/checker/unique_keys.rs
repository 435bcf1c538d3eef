//! Checks that at most one live job holds a unique key at any moment.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Rule};

/// The number of a row change, and its time.
type Moment = (i64, i64);

pub(super) fn check(jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let mut by_key: HashMap<&str, Vec<(Moment, Moment, i64)>> = HashMap::new();
    for job in jobs.values() {
        for span in &job.keys {
            by_key
                .entry(&span.key)
                .or_default()
                .push((span.from, span.to, job.job));
        }
    }
    for (key, mut spans) in by_key {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let ((_, until, first), (from, _, second)) = (pair[0], pair[1]);
            if from.0 < until.0 {
                let text =
                    format!("it holds the key {key}, and so does job {first}, which is live");
                findings.add(Rule::OneOfAKey, Some(second), from.1, text);
            }
        }
    }
}
