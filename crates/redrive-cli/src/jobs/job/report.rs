//! What commands that change jobs say about them.

use redrive::JobId;
use redrive::admin::{JobFilter, JobState, LiveJob};

use super::show::not_found;
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

/// Returns a job given by id, if it has not ended and matches. Otherwise says why a command cannot take it, and
/// returns the reason in one word.
pub(super) fn live_or_say(
    id: JobId,
    filter: &JobFilter,
    cx: &mut Context<'_>,
) -> Result<std::result::Result<LiveJob, &'static str>> {
    let db = &cx.database()?;
    let matches = || Ok::<_, Error>(db.admin().jobs().count(&filter.clone().ids([id]))?.jobs() > 0);
    Ok(Err(match db.admin().job(id)? {
        None => {
            not_found(id, cx)?;
            "gone"
        }
        Some(job) if job.state == JobState::Done => {
            cx.say(format!("job {id} is done already"));
            "done"
        }
        Some(job) if matches()? => return Ok(Ok(job)),
        Some(_) => {
            cx.say(format!("job {id} does not match the conditions"));
            "conditions"
        }
    }))
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
