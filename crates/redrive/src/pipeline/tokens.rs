//! Claims under rate limits: each claimed job costs a token of every limit that concerns it.
//!
//! The buckets stay locked from the count of their tokens to the commit of the claim, so no other
//! process uses the same tokens, and a claim that fails costs none.
//!
//! If each group has a limit, a claimed job takes a token of its group, or returns until there may be one. Jobs that wait
//! for their group are claimed only with a token. Other jobs of groups, such as a retry in an ordered group or the job of a
//! lost worker, take theirs here, in the transaction of their claim.

use std::collections::HashMap;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::wait::from_now;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::group_walk::{GroupLook, GroupPlace};
use crate::pipeline::claim::groups::{claim_groups, micros, start_by};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim, fill};
use crate::pipeline::settle::{Repeat, settle};
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Row};

/// Claims ready jobs, and takes the tokens that they and their groups need. An error is the time until there may be one.
pub(crate) fn claim_with_tokens(
    session: &mut Session,
    request: &ClaimRequest,
) -> Result<Result<ChargedJobs, Duration>> {
    if request.limit_of.is_none() && request.limits_groups {
        let doing = format!(
            "claim jobs of queue `{}` under a rate limit of each group",
            request.queue
        );
        let charged =
            session.read_committed(&doing, "", |session| claim_charged(session, request))?;
        return Ok(Ok(charged));
    }
    with_tokens(session, request, claim_charged, |it| &mut it.jobs[..])
}

/// The same for jobs that wait for their group.
pub(crate) fn claim_groups_with_tokens(
    session: &mut Session,
    request: &ClaimRequest,
    look: &GroupLook,
) -> Result<Result<(Vec<ClaimedJob>, GroupPlace), Duration>> {
    let claim =
        |session: &mut Session, request: &ClaimRequest| claim_groups(session, request, look);
    with_tokens(session, request, claim, |(claimed, _)| &mut claimed[..])
}

/// Claims at most as many jobs as there are tokens, and takes those of the `jobs` in the answer, which must start soon.
fn with_tokens<T>(
    session: &mut Session,
    request: &ClaimRequest,
    claim: impl Fn(&mut Session, &ClaimRequest) -> Result<T>,
    jobs: impl Fn(&mut T) -> &mut [ClaimedJob],
) -> Result<Result<T, Duration>> {
    let Some(kind) = request.limit_of.as_deref() else {
        return claim(session, request).map(Ok);
    };
    let queue = &*request.queue;
    let doing = format!("claim jobs of queue `{queue}` under a rate limit");
    session.read_committed(&doing, "", |session| {
        let doing = "count the tokens of a rate limit";
        let (tokens, wait, hold): (Option<i64>, i64, Option<i64>) =
            session.one(doing, &sql::LOCK_TOKENS, &[&queue, &kind])?;
        // `None`: the limit was removed.
        let tokens = tokens.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(0));
        if tokens == 0 {
            return Ok(Err(micros(wait)));
        }
        let hold = hold.map(micros);
        let request = ClaimRequest {
            limit: in_time(hold, request.limit, request.free).min(tokens),
            ..request.clone()
        };
        let mut answer = claim(session, &request)?;
        let claimed = jobs(&mut answer);
        // Before the tokens are taken, so that the jobs start in time by the clock of the database, too.
        let start_by = hold.map(from_now);
        for job in &mut *claimed {
            job.start_by = job.start_by.into_iter().chain(start_by).min();
        }
        if !claimed.is_empty() {
            let jobs = i64::try_from(claimed.len()).unwrap_or(i64::MAX);
            let doing = "take the tokens of a rate limit";
            session.query(doing, &sql::CHARGE_TOKENS, &[&queue, &kind, &jobs])?;
        }
        Ok(Ok(answer))
    })
}

/// From this time on, a claimed job may wait for the jobs before it.
const PATIENT: Duration = Duration::from_millis(100);

/// Returns how many of `room` jobs are likely to start within the time for which they hold their tokens. The room counts
/// what the slots finish within 50 ms at the observed run time.
fn in_time(hold: Option<Duration>, room: usize, free: usize) -> usize {
    let hold = hold.unwrap_or(PATIENT).min(PATIENT);
    let share = hold.as_nanos() * room as u128 / PATIENT.as_nanos();
    let share = usize::try_from(share).unwrap_or(room);
    room.min(share.max(free).max(1))
}

/// The longest time for which a job returns to the queue, because the limit may be raised or removed.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Claimed jobs, after those with a group have taken their tokens.
#[derive(Debug)]
pub(crate) struct ChargedJobs {
    /// The jobs that may start.
    pub(crate) jobs: Vec<ClaimedJob>,
    /// The jobs that returned to the queue because their group had no token.
    pub(crate) put_off: Vec<ClaimedJob>,
    /// When the first of these is due again.
    pub(crate) due_at: Option<Instant>,
    /// Whether the claim took as many jobs as it asked for, or as many bytes as it may take.
    pub(crate) fill: Fill,
}

/// Claims ready jobs, in the transaction of the caller. If each group has a limit, takes a token for each job with a group,
/// and returns the jobs without one to the queue. A lost transaction loses no token.
fn claim_charged(session: &mut Session, request: &ClaimRequest) -> Result<ChargedJobs> {
    let claimed = claim(session, request)?;
    let mut charged = ChargedJobs {
        fill: fill(&claimed, request.limit),
        jobs: Vec::with_capacity(claimed.len()),
        put_off: Vec::new(),
        due_at: None,
    };
    let grouped = claimed.iter().filter(|_| request.limits_groups);
    let grouped = grouped.filter_map(|job| Some((job.meta.group.as_deref()?, job.meta.id.get())));
    let (keys, ids): (Vec<&str>, Vec<i64>) = grouped.unzip();
    if ids.is_empty() {
        charged.jobs = claimed;
        return Ok(charged);
    }
    let asked_at = Instant::now();
    let rows = session.query(
        "take the tokens of groups",
        &sql::TAKE_GROUP_TOKENS,
        &[&&*request.queue, &keys, &ids],
    )?;
    let answered_at = Instant::now();
    let tokens: HashMap<i64, &Row> = rows.iter().map(|row| (row.get("job_id"), row)).collect();
    let mut unrun = Vec::new();
    for mut job in claimed {
        match tokens.get(&job.meta.id.get()) {
            Some(row) if row.get("is_granted") => {
                job.start_by = start_by(asked_at, row);
                charged.jobs.push(job);
            }
            Some(row) => {
                let wait = micros(row.get("wait_us")).min(MAX_WAIT);
                unrun.push(Settlement::unrun(job.lease, &job.meta, wait));
                let due_at = answered_at + wait;
                charged.due_at = charged.due_at.into_iter().chain([due_at]).min();
                charged.put_off.push(job);
            }
            None => charged.jobs.push(job),
        }
    }
    settle(session, &request.identity, &unrun, Repeat::First)?;
    Ok(charged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::fill_of;

    #[test]
    fn a_claim_is_full_of_jobs_or_of_bytes() {
        for (count, bytes, expected) in [
            (999, 10, Fill::Partial),
            (1000, 10, Fill::Full),
            (8, 1_000_000, Fill::Partial),
            (9, 1_000_000, Fill::Full),
        ] {
            let filled = fill_of(count, count * bytes, 1000);
            assert_eq!(filled, expected, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn with_little_time_only_jobs_that_can_start_at_once_are_claimed() {
        for (room, free, hold_ms, expected) in [
            (1000, 4, 100, 1000),
            (1000, 4, 250, 1000),
            (1000, 4, 20, 200),
            (8, 8, 20, 8),
            (10, 4, 20, 4),
            (10, 0, 20, 2),
            (3, 0, 20, 1),
            (2, 8, 20, 2),
        ] {
            let hold = Some(Duration::from_millis(hold_ms));
            let claimed = in_time(hold, room, free);
            assert_eq!(claimed, expected, "{room} {free} {hold_ms}");
        }
    }
}
