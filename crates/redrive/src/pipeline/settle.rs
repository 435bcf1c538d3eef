//! Settle: writes verdicts to the database, under their leases.
//!
//! A lease without a row is lost: writes under it have no effect, and the result says which. This
//! is a value, counted and never retried, not an error.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use crate::db::ask::{Call, all};
use crate::db::column::Given;
use crate::db::run::{Run, values_of};
use crate::db::session::{Parameter, Session};
use crate::db::sql;
use crate::error::Result;
use crate::job::death_cause::DeathCause;
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::claim::{LeaseId, WorkerId, WorkerIdentity};
use crate::pipeline::done_jobs;
use crate::pipeline::judge::Verdict;
use crate::pipeline::outcome::FailureCause;
use crate::pipeline::settlement::Settlement;
use crate::pipeline::tallies::Tallies;

/// How many times a running job may be released with its attempt refunded.
const MAX_REFUNDS: i32 = 10;

/// Whether a call repeats one whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    First,
    /// What the database lacks was settled by an earlier call.
    Again,
}

/// Ends leases whose jobs are all done, and passes on the turns of their groups. Keeps what is to be kept of the jobs, which
/// are in the order of their leases. Returns the leases that were held.
pub(crate) fn settle_done(
    session: &mut Session,
    done: &[Settlement],
    repeat: Repeat,
) -> Result<HashSet<LeaseId>> {
    const DOING: &str = "settle finished jobs";
    let Some(first) = done.first() else {
        return Ok(HashSet::new());
    };
    let jobs = |its: &[Settlement]| i32::try_from(its.len()).unwrap_or(i32::MAX);
    let leases = done.chunk_by(|one, next| one.lease == next.lease);
    let leases = leases.map(|its| (its[0].lease.0, jobs(its)));
    let (ids, jobs): (Vec<Uuid>, Vec<i32>) = leases.unzip();
    let counts = Tallies::of(done);
    let end = |session: &mut Session| -> Result<HashSet<LeaseId>> {
        let parameters: [Parameter<'_>; 10] = [
            &ids,
            &&*first.meta.queue,
            &counts.leases,
            &counts.keys,
            &counts.labels,
            &counts.buckets,
            &counts.counts,
            &counts.sums,
            &jobs,
            &(repeat == Repeat::Again),
        ];
        let rows = session.query(DOING, &sql::SETTLE_DONE, &parameters)?;
        let ended = rows.iter().map(|row| LeaseId(row.get("lease_id")));
        let ended: HashSet<LeaseId> = ended.collect();
        let kept = done.iter().filter(|one| one.kept_for().is_some());
        let kept = kept.filter(|one| ended.contains(&one.lease));
        done_jobs::store(session, DOING, kept)?;
        Ok(ended)
    };
    match done.iter().all(|one| one.kept_for().is_none()) {
        true => end(session),
        false => session.read_committed(DOING, "", end),
    }
}

/// Writes verdicts and ends leases without remaining jobs. Returns the lease and job of each
/// verdict that was written; the others were lost.
pub(crate) fn settle(
    session: &mut dyn Run,
    identity: &WorkerIdentity,
    settlements: &[Settlement],
    repeat: Repeat,
) -> Result<HashSet<(LeaseId, JobId)>> {
    let Some(first) = settlements.first() else {
        return Ok(HashSet::new());
    };
    let all = settlements;
    let told = values_of(all, told);
    let run_ms = |one: &Settlement| {
        let is_attempt = one.report.is_some() && one.verdict != Verdict::Dead(DeathCause::Expired);
        is_attempt.then(|| milliseconds(one.run_time))
    };
    let counts = Tallies::of(all);
    // One `jsonb` would need a single parameter, but reading a thousand verdicts from it takes ten times as long (measured:
    // 50 ms instead of 5). For an array of a composite type, the driver would look up the type on each connection.
    let parameters: [Parameter<'_>; 26] = [
        &values_of(all, |one| one.lease.0),
        &values_of(all, |one| one.meta.id.get()),
        &values_of(&told, |(verdict, ..)| *verdict),
        &values_of(&told, |(_, delay, _)| milliseconds(*delay)),
        &values_of(&told, |(.., cause)| *cause),
        // A cancelled job that was snoozed or did not run dies in the database without an error.
        &values_of(all, |one| match &one.report {
            Some(report) => &*report.class,
            None => "cancelled",
        }),
        &values_of(all, |one| match &one.report {
            Some(report) => &*report.message,
            None => "cancelled by an operator",
        }),
        &values_of(all, |one| one.report.as_ref()?.detail.as_deref()),
        &values_of(all, run_ms),
        &identity.id.0,
        &&*identity.host,
        &&*identity.version,
        &(repeat == Repeat::Again),
        &values_of(all, |one| one.cause == Some(FailureCause::Outage)),
        &std::process::id().cast_signed(),
        &&*first.meta.queue,
        &values_of(&told, |(_, delay, _)| {
            bucket(buckets::RETRY_DELAY, delay.as_secs_f64())
        }),
        &counts.leases,
        &counts.keys,
        &counts.labels,
        &counts.causes,
        &counts.buckets,
        &counts.counts,
        &counts.sums,
        &values_of(all, |one| one.report.as_ref()?.key.as_deref()),
        &MAX_REFUNDS,
    ];
    let rows = session.run("settle jobs", &sql::SETTLE, &parameters)?;
    Ok(rows
        .iter()
        .map(|row| (LeaseId(row.get("lease_id")), JobId::new(row.get("id"))))
        .collect())
}

/// Returns the call that releases the jobs of these leases of a worker, or of all, that were claimed at least `age` ago, and
/// returns their ids. `started` are the jobs whose handlers ran, `None`: any of them may have. Their refunds are counted.
pub(crate) fn release(
    worker: WorkerId,
    leases: Option<&[LeaseId]>,
    age: Duration,
    started: Option<&[JobId]>,
) -> Call<Vec<JobId>> {
    let leases = leases.map(|leases| leases.iter().map(|lease| lease.0).collect::<Vec<Uuid>>());
    let age_ms = i32::try_from(milliseconds(age)).unwrap_or(i32::MAX);
    let given: [&dyn Given; 5] = [&worker.0, &leases, &age_ms, &started, &MAX_REFUNDS];
    all("release jobs", &sql::RELEASE, &given)
}

/// Returns the word of a verdict, its delay, and the cause if the job dies.
fn told(settlement: &Settlement) -> (&'static str, Duration, Option<&'static str>) {
    match settlement.verdict {
        Verdict::Done => ("done", Duration::ZERO, None),
        Verdict::Unrun(delay) => ("unrun", delay, None),
        Verdict::Retry(delay) => ("retry", delay, None),
        Verdict::Snooze(delay) => ("snooze", delay, None),
        Verdict::Outage(delay) => ("outage", delay, None),
        Verdict::Refund(delay) => ("refund", delay, Some(DeathCause::Exhausted.as_str())),
        Verdict::Dead(cause) => ("dead", Duration::ZERO, Some(cause.as_str())),
    }
}
