//! What commands that change jobs say about them.

use redrive::admin::{JobState, LiveJob};

use super::table::job_table;
use crate::dry_run::SAMPLE;
use crate::left_out::LeftOut;
use crate::prelude::*;

/// Matching jobs that a command leaves out, if there are any.
pub(super) fn left_out_jobs(count: u64, reason: &'static str, because: &str) -> Option<LeftOut> {
    (count > 0).then(|| LeftOut {
        count,
        reason,
        state: None,
        because: because.to_owned(),
        include: None,
    })
}

/// A table of some of the jobs in these states.
pub(super) fn sample(jobs: Vec<LiveJob>, states: &[JobState]) -> Table {
    let changeable = jobs.into_iter().filter(|job| states.contains(&job.state));
    let some: Vec<LiveJob> = changeable.zip(0..SAMPLE).map(|(job, _)| job).collect();
    job_table(&some)
}

/// The number of jobs that match, in words: `12 live jobs match`.
pub(super) fn live_jobs(jobs: u64) -> String {
    let verb = if jobs == 1 { "matches" } else { "match" };
    format!("{} {verb}", counted(jobs, "live job"))
}
