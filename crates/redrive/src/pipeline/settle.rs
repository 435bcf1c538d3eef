//! Settle: writes verdicts to the database, under their leases.
//!
//! A lease without a row is lost: writes under it have no effect, and the result says which. This
//! is a value, counted and never retried, not an error.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde_json::json;
use uuid::Uuid;

use crate::db::ask::{Call, all};
use crate::db::column::Given;
use crate::db::run::Run;
use crate::db::session::{Parameter, Session};
use crate::db::sql;
use crate::error::Result;
use crate::job::death_cause::DeathCause;
use crate::job::error_report::{ErrorReport, clip};
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::job::payload::Json;
use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::claim::{LeaseId, WorkerId, WorkerIdentity};
use crate::pipeline::done_jobs;
use crate::pipeline::judge::Verdict;
use crate::pipeline::outcome::FailureCause;
use crate::pipeline::settlement::Settlement;
use crate::pipeline::tallies::Tallies;
use crate::sync::Transaction;

/// How many times a running job may be released with its attempt refunded.
const MAX_REFUNDS: i32 = 10;
/// The longest message stored per attempt in the history, in bytes.
const MAX_HISTORY_MESSAGE_BYTES: usize = 1000;

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
    let mut columns = VerdictColumns::default();
    for settlement in settlements {
        columns.push(settlement, identity)?;
    }
    let counts = Tallies::of(settlements);
    let parameters: [Parameter<'_>; 26] = [
        &columns.leases,
        &columns.ids,
        &columns.verdicts,
        &columns.delays,
        &columns.causes,
        &columns.classes,
        &columns.messages,
        &columns.details,
        &columns.records,
        &identity.id.0,
        &&*identity.host,
        &&*identity.version,
        &(repeat == Repeat::Again),
        &columns.in_outage,
        &std::process::id().cast_signed(),
        &&*first.meta.queue,
        &columns.delay_buckets,
        &counts.leases,
        &counts.keys,
        &counts.labels,
        &counts.causes,
        &counts.buckets,
        &counts.counts,
        &counts.sums,
        &columns.failure_keys,
        &MAX_REFUNDS,
    ];
    let rows = session.run("settle jobs", &sql::SETTLE, &parameters)?;
    Ok(rows
        .iter()
        .map(|row| (LeaseId(row.get("lease_id")), JobId::new(row.get("id"))))
        .collect())
}

/// Settles a job as done in its handler's transaction, which began at `began`. Returns the id of the transaction; `None`:
/// the lease is lost.
pub(crate) fn settle_own(
    transaction: &mut Transaction<'_>,
    settlement: &Settlement,
    began: SystemTime,
) -> Result<Option<String>, postgres::Error> {
    let meta = &settlement.meta;
    let counts = Tallies::of(std::slice::from_ref(settlement));
    let parameters: [Parameter<'_>; 11] = [
        &settlement.lease.0,
        &meta.id.get(),
        &meta.generation.cast_signed(),
        &meta.is_unique,
        &meta.group.is_some(),
        &began,
        &counts.keys,
        &counts.labels,
        &counts.buckets,
        &counts.counts,
        &counts.sums,
    ];
    let own = &sql::SETTLE_OWN;
    let rows = transaction.query_typed(own.text, &own.typed(&parameters))?;
    Ok(rows.first().map(|row| row.get("xid")))
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

/// The verdicts, one array per column.
///
/// One `jsonb` would need a single parameter, but reading a thousand verdicts from it takes ten times as long
/// (measured: 50 ms instead of 5). For an array of a composite type, the driver would look up the type on each connection.
#[derive(Default)]
struct VerdictColumns<'a> {
    leases: Vec<Uuid>,
    ids: Vec<i64>,
    verdicts: Vec<&'static str>,
    delays: Vec<i64>,
    causes: Vec<Option<&'static str>>,
    classes: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    details: Vec<Option<&'a str>>,
    records: Vec<Option<Json>>,
    in_outage: Vec<bool>,
    delay_buckets: Vec<i16>,
    failure_keys: Vec<Option<&'a str>>,
}

impl<'a> VerdictColumns<'a> {
    fn push(&mut self, settlement: &'a Settlement, identity: &WorkerIdentity) -> Result<()> {
        let (key, delay, cause) = match settlement.verdict {
            Verdict::Done => ("done", Duration::ZERO, None),
            Verdict::Unrun(delay) => ("unrun", delay, None),
            Verdict::Retry(delay) => ("retry", delay, None),
            Verdict::Snooze(delay) => ("snooze", delay, None),
            Verdict::Outage(delay) => ("outage", delay, None),
            Verdict::Refund(delay) => ("refund", delay, Some(DeathCause::Exhausted)),
            Verdict::Dead(cause) => ("dead", Duration::ZERO, Some(cause)),
        };
        let report = settlement.report.as_ref();
        self.leases.push(settlement.lease.0);
        self.ids.push(settlement.meta.id.get());
        self.verdicts.push(key);
        self.delays.push(milliseconds(delay));
        self.in_outage
            .push(settlement.cause == Some(FailureCause::Outage));
        self.delay_buckets
            .push(bucket(buckets::RETRY_DELAY, delay.as_secs_f64()));
        self.causes.push(cause.map(DeathCause::as_str));
        // A cancelled job that was snoozed or did not run dies in the database without an error.
        self.classes
            .push(Some(report.map_or("cancelled", |report| &report.class)));
        self.messages.push(Some(
            report.map_or("cancelled by an operator", |report| &report.message),
        ));
        self.details
            .push(report.and_then(|report| report.detail.as_deref()));
        self.failure_keys
            .push(report.and_then(|report| report.key.as_deref()));
        self.records.push(
            report
                // No attempt was made.
                .filter(|_| cause != Some(DeathCause::Expired))
                .map(|report| record(settlement, report, identity))
                .transpose()?,
        );
        Ok(())
    }
}

/// The history record of a failed attempt. The database adds the time of its end.
fn record(
    settlement: &Settlement,
    report: &ErrorReport,
    identity: &WorkerIdentity,
) -> Result<Json> {
    let outcome = match settlement.verdict {
        Verdict::Dead(cause) => cause.as_str(),
        Verdict::Outage(_) => "outage",
        Verdict::Refund(_) | Verdict::Unrun(_) => "interrupted",
        Verdict::Done | Verdict::Retry(_) | Verdict::Snooze(_) => "failed",
    };
    let meta = &settlement.meta;
    Json::of(
        "the history",
        &json!({
            "generation": meta.generation,
            "attempt": meta.attempt,
            "outcome": outcome,
            "run_ms": u64::try_from(settlement.run_time.as_millis()).unwrap_or(u64::MAX),
            "error_class": report.class,
            "error_message": clip(report.message.clone(), MAX_HISTORY_MESSAGE_BYTES),
            "worker": identity.id.0,
            "host": &*identity.host,
            "version": &*identity.version,
            "pid": std::process::id().cast_signed(),
        }),
    )
}
