//! Claims under rate limits: each claimed job costs a token of every limit that concerns it.
//!
//! The buckets stay locked from the count of their tokens to the commit of the claim, so no other
//! process uses the same tokens, and a claim that fails costs none.

use std::sync::Arc;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::wait::from_now;
use crate::pipeline::claim::group_walk::GroupLook;
use crate::pipeline::claim::groups::{GroupAnswer, claim_groups};
use crate::pipeline::claim::{ClaimRequest, claim, max_crashes_beside};
use crate::pipeline::group_tokens::{ChargedJobs, charge_groups, unlimited};

/// The kind of the limit of a whole queue.
pub(crate) const WHOLE_QUEUE: &str = "";

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
    session.read_committed(&doing, |session| {
        let mut request = request.clone();
        let tokens = match lock_tokens(session, scope)? {
            Ok(tokens) => tokens,
            Err(wait) => return Ok(Err(wait)),
        };
        request.limit = request.limit.min(tokens);
        let tokens = request.limit;
        let jobs = claim(session, &request)?;
        let mut ring = match scope.each_group {
            true => charge_groups(session, jobs)?,
            false => unlimited(jobs),
        };
        request.limit -= ring.claimed().min(tokens);
        // One of these may have to be the only suspect.
        let crashes = ring.jobs.iter().map(|job| job.crashes).max();
        let most = max_crashes_beside(crashes.unwrap_or_default());
        request.max_crashes = request.max_crashes.min(most);
        // Two statements that charge buckets in one transaction could deadlock with another one.
        let mut of_groups = match groups.filter(|_| request.limit > 0 && !ring.has_charged) {
            Some(look) => Some(claim_groups(session, &request, look)?),
            None => None,
        };
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

/// Takes the token of one job that was claimed without regard to its limits, as a probe is. Returns whether
/// there was one; without it, the job must not start.
pub(crate) fn take_token(session: &mut Session, scope: &TokenScope) -> Result<bool> {
    session.read_committed("take a token", |session| {
        match lock_tokens(session, scope)? {
            Ok(_) => charge_tokens(session, scope, 1).map(|()| true),
            Err(_) => Ok(false),
        }
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
