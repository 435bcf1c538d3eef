//! What commands that change jobs say about them.

use redrive::JobId;
use redrive::admin::{JobFilter, JobState, LiveJob};

use super::show::gone;
use super::table::job_table;
use crate::dlq::Why;
use crate::dry_run::SAMPLE;
use crate::prelude::*;

/// Returns a job given by id, if it has not ended and matches, or why a command cannot take it.
pub(super) fn live(
    id: JobId,
    filter: &JobFilter,
    db: &Database,
) -> Result<std::result::Result<LiveJob, Why>> {
    let matches = || Ok::<_, Error>(db.admin().jobs().count(&filter.clone().ids([id]))?.jobs() > 0);
    Ok(Err(match db.admin().job(id)? {
        None => ("gone", format!("it {}", gone(id, db)?)),
        Some(job) if job.state == JobState::Done => ("done", "it is done already".to_owned()),
        Some(job) if matches()? => return Ok(Ok(job)),
        Some(_) => ("conditions", "it does not match the conditions".to_owned()),
    }))
}

/// A table of some of the jobs in these states.
pub(super) fn sample(jobs: Vec<LiveJob>, states: &[JobState]) -> Table {
    let changeable = jobs.into_iter().filter(|job| states.contains(&job.state));
    let some: Vec<LiveJob> = changeable.zip(0..SAMPLE).map(|(job, _)| job).collect();
    job_table(&some)
}
