//! Runs jobs in the transaction of a test, with the claim, the judge and the settle of a worker.

use std::sync::Arc;
use std::time::Duration;
use std::{iter, slice};

use postgres::{GenericClient, Transaction};
use uuid::Uuid;

use crate::db::run::Run as _;
use crate::db::sql::{self, Parameter};
use crate::error::{Error, Result};
use crate::job::backoff::Backoff;
use crate::job::job::Signal;
use crate::job::milliseconds::milliseconds;
use crate::pipeline::claim::group_walk::GroupWalk;
use crate::pipeline::claim::groups::claim_groups;
use crate::pipeline::claim::mark::{Scan, between};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, WorkerId, WorkerIdentity, claim};
use crate::pipeline::follow_up::settle_in;
use crate::pipeline::judge::JudgeContext;
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::pipeline::settle::Repeat;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::worker::handlers::{Call, JobEnd};
use crate::worker::observer::Attempt;
use crate::worker::own_transaction::{not_committed, settle_in_own};
use crate::worker::registry::Handlers;
use crate::worker::slot::expired;

/// The attempts after which [`drain_in`] gives up: handlers that enqueue each other's jobs never end.
const MAX_ATTEMPTS: usize = 1_000;

/// Runs the next job that one of these handlers runs, of any queue, in a transaction.
///
/// The job is claimed, run, judged and settled as by a worker, and a rollback leaves nothing of it. A handler
/// in a transaction runs in a savepoint of this one, so what it sets with `SET LOCAL` lasts until the end of
/// the transaction if it succeeds. Jobs that other transactions have locked are passed over. A batch handler
/// gets each job alone. Deadlines, breakers, pauses and the rate limits of queues do not apply.
///
/// Returns `None` if no job is ready. A delayed job becomes ready when it is due; see [`travel`].
///
/// # Errors
/// *Invalid* if two handlers have the same kind. Otherwise if the database rejects a statement; the
/// transaction is then aborted.
pub fn run_next(transaction: &mut Transaction<'_>, handlers: &Handlers) -> Result<Option<Attempt>> {
    if let Some(problem) = &handlers.problem {
        return Err(Error::invalid(problem.clone()));
    }
    let kinds = handlers.claimed_kinds();
    let of_kinds: [Parameter<'_>; 1] = [&kinds.as_deref()];
    transaction.run("make due jobs ready", &sql::MAKE_DUE_READY, &of_kinds)?;
    let queues = transaction.run("look for jobs", &sql::QUEUES_OF_KINDS, &of_kinds)?;
    let identity = WorkerIdentity {
        id: WorkerId(Uuid::new_v4()),
        host: "test".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    for row in queues {
        let request = ClaimRequest {
            queue: row.get::<_, &str>("queue").into(),
            identity: identity.clone(),
            kinds: kinds.clone(),
            except: None,
            alone: Arc::default(),
            batched: Arc::default(),
            limit: 1,
            max_crashes: i32::MAX,
            limits_groups: false,
            limit_of: None,
            free: 1,
            scan: Scan::Full,
            parts: between([]),
        };
        let claimed = match claim(transaction, &request)?.pop() {
            None => of_groups(transaction, &request)?,
            claimed => claimed,
        };
        if let Some(claimed) = claimed {
            return run(transaction, handlers, &identity, claimed).map(Some);
        }
    }
    Ok(None)
}

/// Runs jobs as [`run_next`] does until none is ready, and returns the attempts in order.
///
/// # Errors
/// As [`run_next`]; *invalid* after 1,000 attempts.
pub fn drain_in(transaction: &mut Transaction<'_>, handlers: &Handlers) -> Result<Vec<Attempt>> {
    let mut all = Vec::new();
    while let Some(ran) = run_next(transaction, handlers)? {
        all.push(ran);
        if all.len() == MAX_ATTEMPTS {
            return Err(Error::invalid(format!(
                "jobs are still ready after {MAX_ATTEMPTS} attempts in the transaction of a test"
            )));
        }
    }
    Ok(all)
}

/// Lets time pass for the jobs: delayed ones become due, windows of unique keys close and jobs expire
/// this much earlier.
///
/// `client` is the transaction of a test. Until its end, the workers of other sessions pass over the jobs.
///
/// # Errors
/// If the database rejects the statement, for example because a delayed job would be due before 2000.
pub fn travel(client: &mut impl GenericClient, by: Duration) -> Result<()> {
    let by = milliseconds(by);
    let parameters = sql::TRAVEL.typed(&[&by]);
    let moved = client.query_typed(sql::TRAVEL.text, &parameters);
    moved.map_err(|error| Error::from_postgres("let time pass for the jobs", error))?;
    Ok(())
}

/// Claims a job that waits for the turn of its group.
fn of_groups(
    transaction: &mut Transaction<'_>,
    request: &ClaimRequest,
) -> Result<Option<ClaimedJob>> {
    let mut walk = GroupWalk::default();
    loop {
        let look = walk.look(1, 1);
        let (mut claimed, place) = claim_groups(transaction, request, &look)?;
        let claimed = claimed.pop();
        let jobs = usize::from(claimed.is_some());
        walk.note(Instant::now(), Duration::ZERO, jobs, place);
        if claimed.is_some() || !walk.is_unfinished() {
            return Ok(claimed);
        }
    }
}

/// Runs a claimed job and settles it.
fn run(
    transaction: &mut Transaction<'_>,
    handlers: &Handlers,
    identity: &WorkerIdentity,
    claimed: ClaimedJob,
) -> Result<Attempt> {
    let (lease, meta) = (claimed.lease, Arc::clone(&claimed.meta));
    let Some(handler) = handlers.of(&meta.kind) else {
        return Err(Error::invalid(format!(
            "kind `{}` has no handler",
            meta.kind
        )));
    };
    let (options, signal, started) = (&handler.options, Arc::<Signal>::default(), Instant::now());
    let done = || {
        let now = Instant::now();
        let ran = now.saturating_duration_since(started);
        Settlement::done(lease, &meta, ran, options.keep_done, now)
    };
    let given = Arc::clone(&signal);
    let end = match (meta.expired(started), &handler.call) {
        (Some(limit), _) => Some(Err(expired(limit))),
        (None, Call::Plain(call)) => call(&mut iter::once((claimed, given))).pop(),
        (None, Call::InTransaction(call)) => {
            let run = |savepoint: &mut Transaction<'_>| call(claimed, given, savepoint);
            in_savepoint(transaction, run, done)?.map(Err)
        }
    };
    match end {
        None => Ok(Attempt::of(&done(), None)),
        Some(end) => {
            let error = end.as_ref().err();
            let error = error.and_then(|outcome| outcome.failure.error.clone());
            let backoff = Backoff::default();
            let at = JudgeContext::of(&meta, options.backoff_or(&backoff), 0.5);
            let end = end.map_err(|outcome| options.ruled(outcome, false));
            let judged = done().judged(end, &at, || signal.checkpoints.unstored());
            let all = slice::from_ref(&judged);
            settle_in(transaction, identity, all, Repeat::First)?;
            Ok(Attempt::of(&judged, error))
        }
    }
}

/// Runs a handler that expects a transaction in a savepoint, and settles its job there. A failure, which it returns, leaves
/// nothing of what it did.
fn in_savepoint(
    transaction: &mut Transaction<'_>,
    handler: impl FnOnce(&mut Transaction<'_>) -> JobEnd,
    done: impl FnOnce() -> Settlement,
) -> Result<Option<Outcome>> {
    const DOING: &str = "run a handler in a savepoint";
    let failed = |error| Error::from_postgres(DOING, error);
    let begun = transaction.query_one(sql::BEGIN_OWN.text, &[]);
    let begun = begun.map_err(failed)?;
    let mut savepoint = transaction.savepoint("redrive_attempt").map_err(failed)?;
    let ended = handler(&mut savepoint).and_then(|follow_ups| {
        let mut done = done();
        done.follow_ups = follow_ups;
        let settled = settle_in_own(&mut savepoint, &done, begun.get("began"))?;
        // As a commit, it fails if the handler broke a deferred constraint. The rollback defers the constraints of the
        // test again.
        let committed = savepoint.batch_execute(
            "SAVEPOINT redrive_commit; SET CONSTRAINTS ALL IMMEDIATE; \
             ROLLBACK TO SAVEPOINT redrive_commit",
        );
        committed.map_err(|refused| not_committed(done.meta.id, refused))?;
        Ok(settled.is_some())
    });
    if let Ok(true) = ended {
        savepoint.commit().map_err(failed)?;
        return Ok(None);
    }
    match (savepoint.rollback(), ended) {
        (Ok(()), Ok(_)) => Err(Error::invalid(format!(
            "could not {DOING}: its job has lost its lease"
        ))),
        (Ok(()), Err(outcome)) => Ok(Some(outcome)),
        // The handler ended the transaction of the test.
        (Err(error), Err(outcome)) if outcome.by == FailedBy::Handler => {
            let failure = outcome.failure;
            Err(Error::invalid(format!("could not {DOING}: {failure}")).caused_by(error))
        }
        (Err(error), Ok(_) | Err(_)) => Err(failed(error)),
    }
}
