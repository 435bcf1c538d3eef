//! Checks that a job or letter that vanished was erased by a client that asked for it.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::requests::Requests;
use crate::checker::{Findings, Path};
use crate::history::Operation;

pub(super) fn check(jobs: &HashMap<i64, JobHistory>, requests: &Requests, findings: &mut Findings) {
    for job in jobs.values() {
        for vanished in &job.vanished {
            if requests.covers(&vanished.by, Operation::Erase, vanished.at) {
                findings.paths.take(Path::Erased);
            } else {
                findings.add(vanished.rule, Some(job.job), vanished.at, &*vanished.what);
            }
        }
    }
}
