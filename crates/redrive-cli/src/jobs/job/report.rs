//! What commands that change jobs say about them.

use redrive::admin::{JobState, LiveJob};

use super::table::job_table;
use crate::context::Context;
use crate::dlq::LeftOut;
use crate::error::Result;
use crate::terminal::grouped;

/// How many jobs a dry run shows.
const SAMPLE: usize = 5;

/// Matching jobs that a command leaves out, if there are any.
pub(super) fn left_out_jobs(
    count: u64,
    reason: &'static str,
    because: impl Into<String>,
) -> Option<LeftOut> {
    (count > 0).then(|| LeftOut {
        count,
        reason,
        state: None,
        because: because.into(),
        include: None,
    })
}

/// Prints some of the jobs in these states.
pub(super) fn write_sample(
    jobs: Vec<LiveJob>,
    states: &[JobState],
    cx: &mut Context<'_>,
) -> Result<()> {
    let mut jobs = jobs;
    jobs.retain(|job| states.contains(&job.state));
    jobs.truncate(SAMPLE);
    job_table(&jobs).write(cx.out)
}

/// The number of jobs that match, in words: `12 live jobs match`.
pub(super) fn matching(jobs: u64) -> String {
    match jobs {
        1 => "1 live job matches".to_owned(),
        _ => format!("{} live jobs match", grouped(jobs)),
    }
}
