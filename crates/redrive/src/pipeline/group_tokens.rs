//! Rate limits of each group: a claimed job takes a token of its group, or returns until there may be one.
//!
//! Jobs that wait for their group are claimed only with a token. Other jobs of groups, such as a retry in an
//! ordered group or the job of a lost worker, take theirs here, in the transaction of their claim.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::claim::groups::{micros, start_by};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim};
use crate::sync::{Instant, Row};

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
}

/// Claims ready jobs, and takes tokens for those with a group if each group has a limit.
pub(crate) fn claim_with_group_tokens(
    session: &mut Session,
    request: &ClaimRequest,
    each_group: bool,
) -> Result<ChargedJobs> {
    if !each_group {
        return claim(session, request).map(unlimited);
    }
    let doing = format!(
        "claim jobs of queue `{}` under a rate limit of each group",
        request.queue
    );
    session.read_committed(&doing, |session| {
        let claimed = claim(session, request)?;
        charge_groups(session, claimed)
    })
}

/// Takes a token of its group for each claimed job that has one, and returns those without a token to the
/// queue. A lost transaction loses no token.
pub(crate) fn charge_groups(
    session: &mut Session,
    claimed: Vec<ClaimedJob>,
) -> Result<ChargedJobs> {
    let grouped = claimed.iter().filter_map(|job| {
        let group = job.meta.group.as_deref()?;
        Some((group, job.meta.id.get()))
    });
    let (keys, ids): (Vec<&str>, Vec<i64>) = grouped.unzip();
    let Some(first) = claimed.first().filter(|_| !ids.is_empty()) else {
        return Ok(unlimited(claimed));
    };
    let asked_at = Instant::now();
    let rows = session.query(
        "take the tokens of groups",
        &sql::TAKE_GROUP_TOKENS,
        &[&&*first.meta.queue, &keys, &ids],
    )?;
    let mut tokens: HashMap<i64, _> = rows
        .iter()
        .map(|row| (row.get("job_id"), token(row, asked_at)))
        .collect();
    let mut charged = ChargedJobs::default();
    let (mut leases, mut ids, mut waits) = (Vec::new(), Vec::new(), Vec::new());
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
                leases.push(job.lease.0);
                ids.push(job.meta.id.get());
                waits.push(i64::try_from(wait.as_micros()).unwrap_or(i64::MAX));
                let due_at = answered_at + wait;
                charged.due_at = charged.due_at.into_iter().chain([due_at]).min();
                charged.put_off.push(job);
            }
        }
    }
    put_off(session, &leases, &ids, &waits)?;
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

fn put_off(session: &mut Session, leases: &[Uuid], ids: &[i64], waits: &[i64]) -> Result<()> {
    if !ids.is_empty() {
        session.query(
            "put off jobs without a token",
            &sql::PUT_OFF,
            &[&leases, &ids, &waits],
        )?;
    }
    Ok(())
}

pub(super) fn unlimited(jobs: Vec<ClaimedJob>) -> ChargedJobs {
    ChargedJobs {
        jobs,
        ..ChargedJobs::default()
    }
}
