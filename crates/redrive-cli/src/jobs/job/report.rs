//! What commands that change jobs say about them.

use redrive::JobId;
use redrive::admin::{JobFilter, JobState, LiveJob};

use super::show::gone;
use crate::not_done::{Why, unknown};
use crate::prelude::*;

/// Returns a job given by id, if it has not ended and matches, or why a command cannot take it.
pub(super) fn live(
    id: JobId,
    filter: &JobFilter,
    db: &Database,
) -> std::result::Result<LiveJob, Why> {
    let this = filter.clone().ids([id]);
    let matching = || db.admin().jobs().count(&this).map_err(unknown);
    match db.admin().job(id).map_err(unknown)? {
        None => Err(("gone", format!("it {}", gone(id, db).map_err(unknown)?))),
        Some(job) if job.state == JobState::Done => Err(("done", "it is done already".to_owned())),
        Some(job) if matching()?.jobs() > 0 => Ok(job),
        Some(_) => Err(("conditions", "it does not match the conditions".to_owned())),
    }
}
