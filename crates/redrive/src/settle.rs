//! Settle: verdicts into the database, under their leases.
//!
//! A lease whose row is gone is lost: whatever is written under it has no effect, and the answer
//! says so. That is a value, counted, never an error and never tried again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
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
use crate::worker::cells::{Cell, DoneLease, cells};

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
    let jobs: Vec<i32> = done
        .iter()
        .map(|done| i32::try_from(done.jobs).unwrap_or(i32::MAX))
        .collect();
    let mut cells = Cells::default();
    for done in done {
        cells.push(done.lease, &done.cells);
    }
    let rows = session.query(
        "settle finished jobs",
        &sql::SETTLE_DONE,
        &[
            &ids,
            &queue,
            &cells.leases,
            &cells.words,
            &cells.labels,
            &cells.buckets,
            &cells.counts,
            &cells.sums,
            &jobs,
        ],
    )?;
    let held: HashSet<Uuid> = rows.iter().map(|row| row.get("lease_id")).collect();
    Ok(done
        .iter()
        .map(|done| done.lease)
        .filter(|lease| !held.contains(&lease.0))
        .collect())
}

/// Writes verdicts; a lease of which no job is left after them ends.
/// Answers the lease and the job of those that were written; the others bounced.
pub(crate) fn settle(
    session: &mut Session,
    settler: &Settler,
    settlements: &[Settlement],
) -> Result<HashSet<(LeaseId, JobId)>> {
    let Some(first) = settlements.first() else {
        return Ok(HashSet::new());
    };
    let queue = &*first.facts.queue;
    let mut columns = Columns::default();
    for settlement in settlements {
        columns.push(settlement, settler)?;
    }
    let counted: Vec<(LeaseId, Vec<Cell>)> = settlements
        .chunk_by(|one, next| one.lease == next.lease)
        .filter_map(|of_lease| Some((of_lease.first()?.lease, cells(of_lease))))
        .collect();
    let mut cells = Cells::default();
    for (lease, counted) in &counted {
        cells.push(*lease, counted);
    }
    let rows = session.query(
        "settle jobs",
        &sql::SETTLE,
        &[
            &columns.leases,
            &columns.ids,
            &columns.verdicts,
            &columns.delays,
            &columns.reasons,
            &columns.classes,
            &columns.messages,
            &columns.details,
            &columns.records,
            &settler.worker.0,
            &&*settler.host,
            &&*settler.version,
            &Reason::Manual.as_str(),
            &columns.in_outage,
            &settler.pid,
            &queue,
            &columns.delay_buckets,
            &cells.leases,
            &cells.words,
            &cells.labels,
            &cells.causes,
            &cells.buckets,
            &cells.counts,
            &cells.sums,
        ],
    )?;
    Ok(rows
        .iter()
        .map(|row| (LeaseId(row.get("lease_id")), JobId::new(row.get("id"))))
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
    ids: Vec<i64>,
    verdicts: Vec<&'static str>,
    delays: Vec<i64>,
    reasons: Vec<Option<&'static str>>,
    classes: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    details: Vec<Option<&'a str>>,
    records: Vec<Option<Json>>,
    in_outage: Vec<bool>,
    delay_buckets: Vec<i16>,
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
        self.ids.push(settlement.facts.id.get());
        self.verdicts.push(word);
        self.delays.push(milliseconds(delay));
        self.in_outage.push(settlement.in_outage);
        self.delay_buckets
            .push(bucket(BOUNDS.retry_delay, delay.as_secs_f64()));
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

/// What is to be counted, column by column.
#[derive(Default)]
struct Cells<'a> {
    leases: Vec<Uuid>,
    words: Vec<&'static str>,
    labels: Vec<Option<&'a str>>,
    causes: Vec<Option<&'static str>>,
    buckets: Vec<Option<i16>>,
    counts: Vec<i64>,
    sums: Vec<f64>,
}

impl<'a> Cells<'a> {
    fn push(&mut self, lease: LeaseId, cells: &'a [Cell]) {
        for cell in cells {
            self.leases.push(lease.0);
            self.words.push(cell.word);
            self.labels.push(cell.label.as_deref());
            self.causes.push(cell.cause.map(Cause::as_str));
            self.buckets.push(cell.bucket);
            self.counts.push(cell.count);
            self.sums.push(cell.sum);
        }
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
    Json::of(&Record {
        generation: facts.generation,
        attempt: facts.attempt,
        outcome,
        run_ms: u64::try_from(settlement.run_time.as_millis()).unwrap_or(u64::MAX),
        error_class: &story.class,
        error_message: clip(story.message.clone(), HISTORY_MESSAGE_BYTES),
        worker: settler.worker.0,
        host: &settler.host,
        version: &settler.version,
        pid: settler.pid,
    })
}

#[derive(Serialize)]
struct Record<'a> {
    generation: u32,
    attempt: u32,
    outcome: &'static str,
    run_ms: u64,
    error_class: &'a str,
    error_message: String,
    worker: Uuid,
    host: &'a str,
    version: &'a str,
    pid: i32,
}
