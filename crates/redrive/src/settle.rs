//! Settle: verdicts into the database, under their leases.
//!
//! A lease whose row is gone is lost: whatever is written under it has no effect, and the answer
//! says so. That is a value, counted, never an error and never tried again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::cause::Cause;
use crate::claim::{LeaseId, WorkerId};
use crate::error::Result;
use crate::failure::{Story, clip};
use crate::job::{Facts, JobId, milliseconds};
use crate::judge::Verdict;
use crate::metrics::{BOUNDS, bucket};
use crate::payload::Json;
use crate::reason::Reason;
use crate::session::Session;
use crate::sql;
use crate::worker::cells::DoneLease;

/// How often a job that ran may be released with its attempt refunded.
const REFUNDS: i32 = 10;
/// The longest message that the history keeps of each attempt, in bytes.
const HISTORY_MESSAGE_BYTES: usize = 1000;

/// Who settles: what a letter says of its last worker.
#[derive(Clone, Debug)]
pub(crate) struct Settler {
    pub(crate) worker: WorkerId,
    pub(crate) host: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) pid: i32,
}

/// A verdict on a leased job.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) lease: LeaseId,
    pub(crate) ordinal: i32,
    pub(crate) facts: Facts,
    pub(crate) run_time: Duration,
    pub(crate) verdict: Verdict,
    /// Whether the attempt met an outage of what it needs.
    pub(crate) in_outage: bool,
    /// Why the attempt failed. `None`: it did not.
    pub(crate) cause: Option<Cause>,
    /// Since the first enqueue of the job.
    pub(crate) age: Duration,
}

impl Settlement {
    /// Whether all that is to be written is that the job is gone.
    pub(crate) fn is_plain_done(&self) -> bool {
        self.verdict == Verdict::Done && self.facts.generation == 0 && !self.facts.is_unique
    }
}

/// Ends leases all of whose jobs are plainly done; answers the lost ones among them.
pub(crate) fn settle_done(
    session: &mut Session,
    queue: &str,
    done: &[DoneLease],
) -> Result<Vec<LeaseId>> {
    let ids: Vec<Uuid> = done.iter().map(|done| done.lease.0).collect();
    let cells = || {
        done.iter()
            .flat_map(|done| done.cells.iter().map(|cell| (done.lease, cell)))
    };
    let leases: Vec<Uuid> = cells().map(|(lease, _)| lease.0).collect();
    let words: Vec<&str> = cells().map(|(_, cell)| cell.word).collect();
    let labels: Vec<Option<&str>> = cells().map(|(_, cell)| cell.label.as_deref()).collect();
    let buckets: Vec<Option<i16>> = cells().map(|(_, cell)| cell.bucket).collect();
    let counts: Vec<i64> = cells().map(|(_, cell)| cell.count).collect();
    let sums: Vec<f64> = cells().map(|(_, cell)| cell.sum).collect();
    let rows = session.query(
        "settle finished jobs",
        &sql::SETTLE_DONE,
        &[
            &ids, &queue, &leases, &words, &labels, &buckets, &counts, &sums,
        ],
    )?;
    let held: HashSet<Uuid> = rows.iter().map(|row| row.get("lease_id")).collect();
    Ok(done
        .iter()
        .map(|done| done.lease)
        .filter(|lease| !held.contains(&lease.0))
        .collect())
}

/// Writes verdicts; `ended` are the leases of which no job is left after them.
/// Answers the (lease, ordinal) of those that were written; the others bounced.
pub(crate) fn settle(
    session: &mut Session,
    settler: &Settler,
    settlements: &[Settlement],
    ended: &[LeaseId],
) -> Result<HashSet<(LeaseId, i32)>> {
    let Some(first) = settlements.first() else {
        return Ok(HashSet::new());
    };
    let queue = &*first.facts.queue;
    let mut columns = Columns::default();
    for settlement in settlements {
        columns.push(settlement, settler)?;
    }
    let ended: Vec<Uuid> = ended.iter().map(|lease| lease.0).collect();
    let rows = session.query(
        "settle jobs",
        &sql::SETTLE,
        &[
            &columns.leases,
            &columns.ordinals,
            &columns.verdicts,
            &columns.delays,
            &columns.reasons,
            &columns.classes,
            &columns.messages,
            &columns.details,
            &columns.records,
            &ended,
            &settler.worker.0,
            &&*settler.host,
            &&*settler.version,
            &Reason::Manual.as_str(),
            &columns.in_outage,
            &settler.pid,
            &queue,
            &columns.causes,
            &columns.run_times,
            &columns.ages,
            &columns.run_buckets,
            &columns.age_buckets,
            &columns.attempts_buckets,
            &columns.delay_buckets,
            &columns.waits,
            &columns.wait_buckets,
        ],
    )?;
    Ok(rows
        .iter()
        .map(|row| (LeaseId(row.get("lease_id")), row.get("ordinal")))
        .collect())
}

/// Which of a worker's leases are given back.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// All of them: it stops.
    All,
    /// These. Never all but those that are known: a claim may be on its way.
    These(Vec<LeaseId>),
    /// Those that nobody knows and that are older than a claim can be on its way.
    Unknown {
        known: Vec<LeaseId>,
        older_than: Duration,
    },
}

/// Gives back what a worker holds. `started` are the jobs whose handlers ran: their refunds are
/// counted.
pub(crate) fn release(
    session: &mut Session,
    worker: WorkerId,
    held: &Held,
    started: &[JobId],
) -> Result<usize> {
    let uuids = |leases: &[LeaseId]| leases.iter().map(|lease| lease.0).collect::<Vec<Uuid>>();
    let (these, keep, older_than) = match held {
        Held::All => (None, Vec::new(), Duration::ZERO),
        Held::These(leases) => (Some(uuids(leases)), Vec::new(), Duration::ZERO),
        Held::Unknown { known, older_than } => (None, uuids(known), *older_than),
    };
    let started: Vec<i64> = started.iter().map(|id| id.get()).collect();
    let older_than_ms = i32::try_from(milliseconds(older_than)).unwrap_or(i32::MAX);
    let rows = session.query(
        "release jobs",
        &sql::RELEASE,
        &[
            &worker.0,
            &these,
            &keep,
            &older_than_ms,
            &started,
            &REFUNDS,
            &Reason::Manual.as_str(),
        ],
    )?;
    Ok(rows.len())
}

/// Gives jobs of a lease back that nobody began, but not all that are left of it; answers how many.
/// None: the lease is lost, or must be released as a whole.
pub(crate) fn give_back(session: &mut Session, lease: LeaseId, jobs: &[JobId]) -> Result<usize> {
    let ids: Vec<i64> = jobs.iter().map(|id| id.get()).collect();
    let rows = session.query("give jobs back", &sql::GIVE_BACK, &[&lease.0, &ids])?;
    Ok(rows.len())
}

/// The verdicts, column by column, as the statement takes them.
#[derive(Default)]
struct Columns<'a> {
    leases: Vec<Uuid>,
    ordinals: Vec<i32>,
    verdicts: Vec<&'static str>,
    delays: Vec<i64>,
    reasons: Vec<Option<&'static str>>,
    classes: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    details: Vec<Option<&'a str>>,
    records: Vec<Option<Json>>,
    in_outage: Vec<bool>,
    causes: Vec<Option<&'static str>>,
    run_times: Vec<f64>,
    ages: Vec<f64>,
    run_buckets: Vec<i16>,
    age_buckets: Vec<i16>,
    attempts_buckets: Vec<i16>,
    delay_buckets: Vec<i16>,
    waits: Vec<f64>,
    wait_buckets: Vec<i16>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, settlement: &'a Settlement, settler: &Settler) -> Result<()> {
        let (word, delay, reason, story) = match &settlement.verdict {
            Verdict::Done => ("done", Duration::ZERO, None, None),
            Verdict::Retry { delay, story } => ("retry", *delay, None, Some(story)),
            Verdict::Snooze { delay } => ("snooze", *delay, None, None),
            Verdict::Outage { delay, story } => ("outage", *delay, None, Some(story)),
            Verdict::Dead { reason, story } => ("dead", Duration::ZERO, Some(*reason), Some(story)),
        };
        self.leases.push(settlement.lease.0);
        self.ordinals.push(settlement.ordinal);
        self.verdicts.push(word);
        self.delays.push(milliseconds(delay));
        self.in_outage.push(settlement.in_outage);
        self.causes.push(settlement.cause.map(Cause::as_str));
        let (run_time, age) = (
            settlement.run_time.as_secs_f64(),
            settlement.age.as_secs_f64(),
        );
        let attempt = f64::from(settlement.facts.attempt);
        self.run_times.push(run_time);
        self.ages.push(age);
        self.run_buckets.push(bucket(BOUNDS.run, run_time));
        self.age_buckets.push(bucket(BOUNDS.end_to_end, age));
        self.attempts_buckets.push(bucket(BOUNDS.attempts, attempt));
        self.delay_buckets
            .push(bucket(BOUNDS.retry_delay, delay.as_secs_f64()));
        let wait = settlement.facts.wait.as_secs_f64();
        self.waits.push(wait);
        self.wait_buckets.push(bucket(BOUNDS.wait, wait));
        self.reasons.push(reason.map(Reason::as_str));
        // A cancelled job whose verdict was to snooze dies in the database without a story.
        self.classes
            .push(Some(story.map_or("cancelled", |story| &story.class)));
        self.messages.push(Some(
            story.map_or("cancelled by an operator", |story| &story.message),
        ));
        self.details
            .push(story.and_then(|story| story.detail.as_deref()));
        self.records.push(
            story
                .map(|story| record(settlement, story, settler))
                .transpose()?,
        );
        Ok(())
    }
}

/// What the history keeps of an attempt that failed; the database adds when it ended.
fn record(settlement: &Settlement, story: &Story, settler: &Settler) -> Result<Json> {
    let outcome = match &settlement.verdict {
        Verdict::Dead { reason, .. } => reason.as_str(),
        Verdict::Outage { .. } => "outage",
        Verdict::Done | Verdict::Retry { .. } | Verdict::Snooze { .. } => "failed",
    };
    let facts = &settlement.facts;
    Json::of(&HashMap::<&str, serde_json::Value>::from([
        ("generation", facts.generation.into()),
        ("attempt", facts.attempt.into()),
        ("outcome", outcome.into()),
        (
            "run_ms",
            u64::try_from(settlement.run_time.as_millis())
                .unwrap_or(u64::MAX)
                .into(),
        ),
        ("error_class", (&*story.class).into()),
        (
            "error_message",
            clip(story.message.clone(), HISTORY_MESSAGE_BYTES).into(),
        ),
        ("worker", settler.worker.0.to_string().into()),
        ("host", (*settler.host).into()),
        ("version", (*settler.version).into()),
        ("pid", settler.pid.cast_unsigned().into()),
    ]))
}
