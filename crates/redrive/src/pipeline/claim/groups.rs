//! Claims jobs that wait for their group.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::group_walk::{GroupLook, GroupPlace};
use super::turns::in_turns;
use super::{ClaimRequest, ClaimedJob, MAX_CLAIM_BYTES, fill, read};
use crate::db::run::Run;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::sync::{Instant, Row};

/// Claims jobs that wait for their group. Returns where it ended, too. The parts of the request have no meaning here.
pub(crate) fn claim_groups(
    session: &mut dyn Run,
    claim: &ClaimRequest,
    look: &GroupLook,
) -> Result<(Vec<ClaimedJob>, GroupPlace)> {
    let queue = &*claim.queue;
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let sent_at = Instant::now();
    let doing = format!("claim jobs of the groups of queue `{queue}`");
    let rows = session.run(
        &doing,
        &sql::CLAIM_GROUPS,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &&*claim.alone,
            &limit,
            &MAX_CLAIM_BYTES,
            &Uuid::new_v4(),
            &claim.identity.id.0,
            &claim.except.as_deref(),
            &look.after,
            &i32::try_from(look.window).unwrap_or(i32::MAX),
            &i32::try_from(look.in_a_row).unwrap_or(i32::MAX),
            &claim.max_crashes,
            &&*claim.batched,
        ],
    )?;
    let first = rows.first().ok_or_else(|| {
        Error::unavailable(format!("could not {doing}: the database returned no row"))
    })?;
    let walked: Option<i64> = first.get("walked");
    let diverted: Option<i64> = first.get("diverted");
    let token_in_us: Option<i64> = first.get("token_in_us");
    let leases = rows
        .iter()
        .filter(|row| row.get::<_, Option<Uuid>>("lease_id").is_some());
    let claimed = read(leases, &claim.queue)?;
    let place = GroupPlace {
        fill: fill(&claimed, claim.limit),
        walked_to: first.get("walked_to"),
        walked: walked.map_or(0, |groups| usize::try_from(groups).unwrap_or(0)),
        has_diverted: diverted.is_some_and(|jobs| jobs > 0),
        token_in: token_in_us.map(micros),
    };
    let mut claimed = in_turns(claimed, &slots(first));
    let start_by = start_by(sent_at, first);
    for job in &mut claimed {
        job.start_by = start_by;
    }
    Ok((claimed, place))
}

/// Returns the slots of the jobs that may follow others.
fn slots(row: &Row) -> HashMap<JobId, i16> {
    let ids: Option<Vec<i64>> = row.get("turn_ids");
    let slots: Option<Vec<i16>> = row.get("turn_slots");
    let ids = ids.into_iter().flatten().map(JobId::new);
    ids.zip(slots.into_iter().flatten()).collect()
}

/// Returns by when a job must start whose token was taken by the statement that was sent at this time.
pub(crate) fn start_by(sent_at: Instant, row: &Row) -> Option<Instant> {
    let within_us: Option<i64> = row.get("start_us");
    within_us.map(|within| sent_at + micros(within))
}

pub(crate) fn micros(us: i64) -> Duration {
    Duration::from_micros(us.max(0).unsigned_abs())
}
