//! Claims under rate limits: each claimed job costs a token of every limit that concerns it.
//!
//! The buckets stay locked from the count of their tokens to the commit of the claim, so no other
//! process uses the same tokens, and a claim that fails costs none.
//!
//! If each group has a limit, a claimed job takes a token of its group, or returns until there may be one. Jobs that wait
//! for their group are claimed only with a token. Other jobs of groups, such as a retry in an ordered group or the job of a
//! lost worker, take theirs here, in the transaction of their claim.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::wait::from_now;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::group_walk::GroupLook;
use crate::pipeline::claim::groups::{GroupAnswer, claim_groups, micros, start_by};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim, fill, max_crashes_beside};
use crate::pipeline::settle::{Repeat, settle};
use crate::pipeline::settlement::Settlement;
use crate::sync::{Instant, Row};

/// The limits that concern the jobs of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenScope {
    pub(crate) queue: Arc<str>,
    /// The kinds of the limits; empty: the whole queue.
    pub(crate) kinds: Vec<String>,
    /// How soon a job must start once it has its tokens.
    pub(crate) hold: Duration,
    /// Whether a job with a group needs a token of this, too.
    pub(crate) each_group: bool,
}

/// What was claimed with tokens.
#[derive(Debug)]
pub(crate) struct TokenClaim {
    /// How many tokens there were, at most the limit of the request.
    pub(crate) tokens: usize,
    /// The jobs that waited for no group, and those of them that lacked a token of theirs.
    pub(crate) ring: ChargedJobs,
    /// The jobs that waited for their group, and where the claim of groups ended.
    pub(crate) of_groups: Option<GroupAnswer>,
}

/// Claims at most as many jobs as there are tokens, and takes theirs. The jobs must start soon. With
/// `groups`, jobs that wait for their group get the tokens that are left. Without a token, returns the time until
/// there may be one.
pub(crate) fn claim_with_tokens(
    session: &mut Session,
    scope: &TokenScope,
    request: &ClaimRequest,
    groups: Option<&GroupLook>,
) -> Result<Result<TokenClaim, Duration>> {
    let doing = format!("claim jobs of queue `{}` under a rate limit", scope.queue);
    session.read_committed(&doing, "", |session| {
        let mut request = request.clone();
        let tokens = match lock_tokens(session, scope)? {
            Ok(tokens) => tokens,
            Err(wait) => return Ok(Err(wait)),
        };
        request.limit = request.limit.min(tokens);
        let tokens = request.limit;
        let mut ring = claim_charged(session, &request, scope.each_group)?;
        request.limit -= ring.claimed().min(tokens);
        // One of these may have to be the only suspect.
        let crashes = ring.jobs.iter().map(|job| job.crashes).max();
        let most = max_crashes_beside(crashes.unwrap_or_default());
        request.max_crashes = request.max_crashes.min(most);
        // Two statements that charge buckets in one transaction could deadlock with another one.
        let groups = groups.filter(|_| request.limit > 0 && !ring.has_charged);
        let of_groups = groups.map(|look| claim_groups(session, &request, look));
        let mut of_groups = of_groups.transpose()?;
        // Before the tokens are taken, so that the jobs start in time by the clock of the database, too.
        let start_by = from_now(scope.hold);
        let grouped = of_groups.iter_mut().flat_map(|answer| &mut answer.claimed);
        let mut claimed = 0;
        for job in ring.jobs.iter_mut().chain(grouped) {
            job.start_by = job.start_by.into_iter().chain([start_by]).min();
            claimed += 1;
        }
        if claimed > 0 {
            charge_tokens(session, scope, claimed)?;
        }
        Ok(Ok(TokenClaim {
            tokens,
            ring,
            of_groups,
        }))
    })
}

/// How long a worker waits for a bucket that another one is using.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// Locks tokens for the transaction, and returns how many. Without one, returns the time until there may be one.
fn lock_tokens(session: &mut Session, scope: &TokenScope) -> Result<Result<usize, Duration>> {
    let row = session.query_one(
        "count the tokens of a rate limit",
        &sql::LOCK_TOKENS,
        &[&&*scope.queue, &scope.kinds],
    )?;
    if !row.get::<_, bool>("is_locked") {
        return Ok(Err(BUSY_WAIT));
    }
    let wait = Duration::from_millis(row.get::<_, i64>("wait_ms").unsigned_abs());
    Ok(match usize::try_from(row.get::<_, i64>("tokens")) {
        Ok(tokens @ 1..) => Ok(tokens),
        Ok(0) | Err(_) => Err(wait.max(Duration::from_millis(1))),
    })
}

fn charge_tokens(session: &mut Session, scope: &TokenScope, jobs: usize) -> Result<()> {
    let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
    session.query(
        "take the tokens of a rate limit",
        &sql::CHARGE_TOKENS,
        &[&&*scope.queue, &scope.kinds, &jobs],
    )?;
    Ok(())
}

/// The longest time for which a job returns to the queue, because the limit may be raised or removed.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Claimed jobs, after those with a group have taken their tokens.
#[derive(Debug, Default)]
pub(crate) struct ChargedJobs {
    /// The jobs that may start.
    pub(crate) jobs: Vec<ClaimedJob>,
    /// The jobs that returned to the queue because their group had no token.
    pub(crate) put_off: Vec<ClaimedJob>,
    /// When the first of these is due again.
    pub(crate) due_at: Option<Instant>,
    /// Whether a bucket was charged.
    pub(crate) has_charged: bool,
}

impl ChargedJobs {
    /// Returns how many jobs were claimed.
    pub(crate) fn claimed(&self) -> usize {
        self.jobs.len() + self.put_off.len()
    }

    /// Returns whether the claim took as many jobs as there was `room` for, or as many bytes as it may take.
    pub(crate) fn fill(&self, room: usize) -> Fill {
        fill(self.jobs.iter().chain(&self.put_off), room)
    }
}

/// Claims ready jobs, and takes tokens for those with a group if each group has a limit.
pub(crate) fn claim_with_group_tokens(
    session: &mut Session,
    request: &ClaimRequest,
    each_group: bool,
) -> Result<ChargedJobs> {
    if !each_group {
        return claim_charged(session, request, each_group);
    }
    let doing = format!(
        "claim jobs of queue `{}` under a rate limit of each group",
        request.queue
    );
    session.read_committed(&doing, "", |session| {
        claim_charged(session, request, each_group)
    })
}

/// The same in the transaction of the caller.
fn claim_charged(
    session: &mut Session,
    request: &ClaimRequest,
    each_group: bool,
) -> Result<ChargedJobs> {
    let claimed = claim(session, request)?;
    match each_group {
        true => charge_groups(session, request, claimed),
        false => Ok(unlimited(claimed)),
    }
}

/// Takes a token of its group for each claimed job that has one, and returns those without a token to the
/// queue. A lost transaction loses no token.
fn charge_groups(
    session: &mut Session,
    request: &ClaimRequest,
    claimed: Vec<ClaimedJob>,
) -> Result<ChargedJobs> {
    let grouped = claimed.iter().filter_map(|job| {
        let group = job.meta.group.as_deref()?;
        Some((group, job.meta.id.get()))
    });
    let (keys, ids): (Vec<&str>, Vec<i64>) = grouped.unzip();
    if ids.is_empty() {
        return Ok(unlimited(claimed));
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
    let mut charged = ChargedJobs::default();
    let mut unrun = Vec::new();
    let answered_at = Instant::now();
    for mut job in claimed {
        match tokens.remove(&job.meta.id.get()) {
            None => charged.jobs.push(job),
            Some(Ok(start_by)) => {
                job.start_by = start_by;
                charged.has_charged = true;
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
        true => Ok(start_by(asked_at, row.get("taken_us"), row.get("hold_us"))),
        false => Err(micros(row.get("wait_us")).min(MAX_WAIT)),
    }
}

fn unlimited(jobs: Vec<ClaimedJob>) -> ChargedJobs {
    ChargedJobs {
        jobs,
        ..ChargedJobs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::job::JobMeta;
    use crate::job::payload::Json;
    use crate::pipeline::claim::LeaseId;

    #[test]
    fn a_claim_is_full_of_jobs_or_of_bytes() {
        for (jobs, bytes, expected) in [
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
            let charged = unlimited((0..jobs).map(|_| job()).collect());
            assert_eq!(charged.fill(1000), expected, "{jobs} of {bytes} bytes");
        }
    }
}
