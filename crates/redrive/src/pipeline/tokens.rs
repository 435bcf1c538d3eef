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
use crate::pipeline::claim::group_walk::GroupLook;
use crate::pipeline::claim::groups::{GroupAnswer, claim_groups, micros, start_by};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim, fill};
use crate::pipeline::settle::{Repeat, settle};
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Row};

/// Claims ready jobs, and takes the tokens that they and their groups need. An error is the time until there may be one.
pub(crate) fn claim_with_tokens(
    session: &mut Session,
    request: &ClaimRequest,
) -> Result<Result<ChargedJobs, Duration>> {
    if request.tokens.is_none() && request.limits_groups {
        let doing = format!(
            "claim jobs of queue `{}` under a rate limit of each group",
            request.queue
        );
        let charged =
            session.read_committed(&doing, "", |session| claim_charged(session, request))?;
        return Ok(Ok(charged));
    }
    with_tokens(
        session,
        request,
        claim_charged,
        |charged: &mut ChargedJobs| &mut charged.jobs[..],
    )
}

/// The same for jobs that wait for their group.
pub(crate) fn claim_groups_with_tokens(
    session: &mut Session,
    request: &ClaimRequest,
    look: &GroupLook,
) -> Result<Result<GroupAnswer, Duration>> {
    let claim =
        |session: &mut Session, request: &ClaimRequest| claim_groups(session, request, look);
    with_tokens(session, request, claim, |answer: &mut GroupAnswer| {
        &mut answer.claimed[..]
    })
}

/// Claims at most as many jobs as there are tokens, and takes those of the `jobs` in the answer, which must start soon.
fn with_tokens<T>(
    session: &mut Session,
    request: &ClaimRequest,
    claim: impl Fn(&mut Session, &ClaimRequest) -> Result<T>,
    jobs: impl Fn(&mut T) -> &mut [ClaimedJob],
) -> Result<Result<T, Duration>> {
    let Some(wanted) = &request.tokens else {
        return claim(session, request).map(Ok);
    };
    let (queue, kind) = (&*request.queue, &*wanted.kind);
    let doing = format!("claim jobs of queue `{queue}` under a rate limit");
    session.read_committed(&doing, "", |session| {
        let locked = match lock_tokens(session, queue, kind)? {
            Ok(locked) => locked,
            Err(wait) => return Ok(Err(wait)),
        };
        let room = locked.in_time(request.limit, wanted.free);
        let limit = room.min(locked.count);
        let request = ClaimRequest {
            limit,
            ..request.clone()
        };
        let mut answer = claim(session, &request)?;
        let claimed = jobs(&mut answer);
        // Before the tokens are taken, so that the jobs start in time by the clock of the database, too.
        let start_by = locked.hold.map(from_now);
        for job in &mut *claimed {
            job.start_by = job.start_by.into_iter().chain(start_by).min();
        }
        if !claimed.is_empty() {
            charge_tokens(session, queue, kind, claimed.len())?;
        }
        Ok(Ok(answer))
    })
}

/// From this time on, a claimed job may wait for the jobs before it.
const PATIENT: Duration = Duration::from_millis(100);

/// Tokens that this transaction has locked.
struct LockedTokens {
    count: usize,
    /// How soon a job must start once it has its tokens. `None`: the limit was removed.
    hold: Option<Duration>,
}

impl LockedTokens {
    /// Returns how many of `room` jobs are likely to start in time. The room counts what the slots finish within 50 ms
    /// at the observed run time.
    fn in_time(&self, room: usize, free: usize) -> usize {
        let hold = self.hold.unwrap_or(PATIENT).min(PATIENT);
        let share = hold.as_nanos() * room as u128 / PATIENT.as_nanos();
        let share = usize::try_from(share).unwrap_or(room);
        room.min(share.max(free).max(1))
    }
}

/// Locks the tokens of jobs of a kind for the transaction. Without one, returns the time until there may be one.
fn lock_tokens(
    session: &mut Session,
    queue: &str,
    kind: &str,
) -> Result<Result<LockedTokens, Duration>> {
    let row = session.query_one(
        "count the tokens of a rate limit",
        &sql::LOCK_TOKENS,
        &[&queue, &kind],
    )?;
    let (tokens, hold): (Option<i64>, Option<i64>) = (row.get("tokens"), row.get("hold_us"));
    let count = tokens.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(0));
    let hold = hold.map(micros);
    Ok(match count {
        0 => Err(micros(row.get("wait_us"))),
        1.. => Ok(LockedTokens { count, hold }),
    })
}

fn charge_tokens(session: &mut Session, queue: &str, kind: &str, jobs: usize) -> Result<()> {
    let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
    session.query(
        "take the tokens of a rate limit",
        &sql::CHARGE_TOKENS,
        &[&queue, &kind, &jobs],
    )?;
    Ok(())
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

/// Claims ready jobs, and takes tokens for those with a group if each group has a limit, in the transaction of the caller.
fn claim_charged(session: &mut Session, request: &ClaimRequest) -> Result<ChargedJobs> {
    let jobs = claim(session, request)?;
    let charged = ChargedJobs {
        fill: fill(jobs.iter(), request.limit),
        jobs,
        put_off: Vec::new(),
        due_at: None,
    };
    match request.limits_groups {
        true => charge_groups(session, request, charged),
        false => Ok(charged),
    }
}

/// Takes a token of its group for each claimed job that has one, and returns those without a token to the
/// queue. A lost transaction loses no token.
fn charge_groups(
    session: &mut Session,
    request: &ClaimRequest,
    mut charged: ChargedJobs,
) -> Result<ChargedJobs> {
    let grouped = charged.jobs.iter().filter_map(|job| {
        let group = job.meta.group.as_deref()?;
        Some((group, job.meta.id.get()))
    });
    let (keys, ids): (Vec<&str>, Vec<i64>) = grouped.unzip();
    if ids.is_empty() {
        return Ok(charged);
    }
    let asked_at = Instant::now();
    let rows = session.query(
        "take the tokens of groups",
        &sql::TAKE_GROUP_TOKENS,
        &[&&*request.queue, &keys, &ids],
    )?;
    let mut tokens: HashMap<i64, _> = rows
        .iter()
        .map(|row| (row.get("job_id"), token(row, asked_at)))
        .collect();
    let mut unrun = Vec::new();
    let answered_at = Instant::now();
    for mut job in std::mem::take(&mut charged.jobs) {
        match tokens.remove(&job.meta.id.get()) {
            None => charged.jobs.push(job),
            Some(Ok(start_by)) => {
                job.start_by = start_by;
                charged.jobs.push(job);
            }
            Some(Err(wait)) => {
                unrun.push(Settlement::unrun(job.lease, &job.meta, wait));
                let due_at = answered_at + wait;
                charged.due_at = charged.due_at.into_iter().chain([due_at]).min();
                charged.put_off.push(job);
            }
        }
    }
    settle(session, &request.identity, &unrun, Repeat::First)?;
    Ok(charged)
}

/// Returns by when a job with a token must start, `None`: at any time, because the limit was removed. An error is the
/// wait for a token.
fn token(row: &Row, asked_at: Instant) -> Result<Option<Instant>, Duration> {
    match row.get("is_granted") {
        true => Ok(start_by(asked_at, row)),
        false => Err(micros(row.get("wait_us")).min(MAX_WAIT)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::job::JobMeta;
    use crate::job::payload::Json;
    use crate::pipeline::claim::LeaseId;

    #[test]
    fn a_claim_is_full_of_jobs_or_of_bytes() {
        for (count, bytes, expected) in [
            (999, 10, Fill::Partial),
            (1000, 10, Fill::Full),
            (8, 1_000_000, Fill::Partial),
            (9, 1_000_000, Fill::Full),
        ] {
            let job = || ClaimedJob {
                lease: LeaseId(uuid::Uuid::nil()),
                meta: Arc::new(JobMeta::of_a_sample()),
                crashes: 0,
                payload: Json::of("it", &"x".repeat(bytes)).expect("a payload"),
                start_by: None,
                follows: false,
            };
            let jobs: Vec<ClaimedJob> = (0..count).map(|_| job()).collect();
            let filled = fill(jobs.iter(), 1000);
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
            let claimed = LockedTokens { count: 1, hold }.in_time(room, free);
            assert_eq!(claimed, expected, "{room} {free} {hold_ms}");
        }
    }
}
