//! Claim: moves ready jobs into a lease and charges the attempt, in one statement.

pub(crate) mod demand;
pub(crate) mod mark;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::job::{JobId, JobMeta};
use crate::job::payload::JsonText;
use crate::sync::{Instant, Row};
use mark::IndexRange;

/// A claim stops at this many bytes of payload, to bound the memory of a batch.
const MAX_CLAIM_BYTES: i64 = 8 * 1024 * 1024;

/// The number of lost workers after which a job is dead-lettered: 3.
pub const MAX_CRASHES: u32 = 3;
/// The crashes of a job that the next crash makes a letter.
const LAST_CHANCE: u32 = MAX_CRASHES - 1;

/// The id of a lease, and the proof of holding it: random and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) Uuid);

/// The id of a running worker, random for each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkerId(pub(crate) Uuid);

/// What to claim, and for which worker.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    pub(crate) queue: Arc<str>,
    pub(crate) worker: WorkerId,
    /// The kinds the worker handles. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds not to claim, because their breaker is open.
    pub(crate) except: Option<Arc<[String]>>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    /// The maximum number of jobs.
    pub(crate) limit: usize,
    /// The suspects to include.
    pub(crate) suspects: Suspects,
    /// The parts of the index to scan.
    pub(crate) ranges: Vec<IndexRange>,
}

/// The suspects that a claim may include: jobs that lost a worker. Each gets its own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspects {
    /// None.
    Leave,
    /// Those that may lose another worker.
    Several,
    /// Those, or one that is on its last chance.
    Any,
}

impl Suspects {
    /// The maximum number of crashes of a job.
    fn max_crashes(self) -> i32 {
        match self {
            Suspects::Leave => 0,
            Suspects::Several => LAST_CHANCE.cast_signed() - 1,
            Suspects::Any => i32::MAX,
        }
    }
}

/// Whether a job may crash its process, as its history suggests.
///
/// Suspects run in parallel, because most of them are innocent. If one of them crashes the process,
/// the others are blamed too. A job that would become a letter at its next crash is therefore the
/// only suspect in its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspicion {
    /// It has lost no worker.
    #[default]
    None,
    /// It has lost a worker, and may lose another one.
    Suspect,
    /// The next crash makes it a letter.
    LastChance,
}

/// A claimed job. Its payload is decoded in the slot.
#[derive(Debug)]
pub(crate) struct ClaimedJob {
    pub(crate) lease: LeaseId,
    pub(crate) meta: JobMeta,
    pub(crate) crashes: u32,
    pub(crate) payload: JsonText,
}

impl ClaimedJob {
    pub(crate) fn suspicion(&self) -> Suspicion {
        match self.crashes {
            0 => Suspicion::None,
            1..LAST_CHANCE => Suspicion::Suspect,
            LAST_CHANCE.. => Suspicion::LastChance,
        }
    }
}

/// Claims ready jobs, in claim order. Returns none if nothing is ready for this worker.
pub(crate) fn claim(session: &mut Session, claim: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
    let queue = &*claim.queue;
    let doing = format!("claim jobs of queue `{queue}`");
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let from_ranks: Vec<i16> = claim.ranges.iter().map(|range| range.from_rank).collect();
    let from_ids: Vec<i64> = claim.ranges.iter().map(|range| range.from_id).collect();
    let to_ranks: Vec<i16> = claim.ranges.iter().map(|range| range.to_rank).collect();
    let lease = LeaseId(Uuid::new_v4());
    let rows = session.query(
        &doing,
        &sql::CLAIM,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &&*claim.alone,
            &limit,
            &MAX_CLAIM_BYTES,
            &claim.suspects.max_crashes(),
            &lease.0,
            &claim.worker.0,
            &from_ranks,
            &from_ids,
            &to_ranks,
            &claim.except.as_deref(),
            &LAST_CHANCE.cast_signed(),
        ],
    )?;
    Ok(read(rows, &claim.queue, lease))
}

/// Claims one job of this segment after a notification. If this finds nothing, [`claim`] decides
/// whether there is a job.
pub(crate) fn claim_one(
    session: &mut Session,
    claim: &ClaimRequest,
    segment: i16,
) -> Result<Vec<ClaimedJob>> {
    let queue = &*claim.queue;
    let lease = LeaseId(Uuid::new_v4());
    let rows = session.query(
        &format!("claim a job of queue `{queue}`"),
        &sql::CLAIM_ONE,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &claim.except.as_deref(),
            &segment,
            &lease.0,
            &claim.worker.0,
        ],
    )?;
    Ok(read(rows, &claim.queue, lease))
}

/// Reads claimed jobs, in claim order.
fn read(rows: Vec<Row>, queue: &Arc<str>, lease: LeaseId) -> Vec<ClaimedJob> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let at = RowColumns::of(first);
    let now = Instant::now();
    // All rows of a statement have the same time.
    let claimed_at: SystemTime = first.get(at.claimed_at);
    let since = |moment| claimed_at.duration_since(moment).unwrap_or_default();
    let mut kind_of_last: Option<Arc<str>> = None;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in rows {
        // Jobs of one kind arrive in runs and share the name.
        let kind: &str = row.get(at.kind);
        let kind = match &kind_of_last {
            Some(last) if **last == *kind => Arc::clone(last),
            _ => kind_of_last.insert(kind.into()).clone(),
        };
        let own_lease: Option<Uuid> = row.get(at.own_lease);
        let crashes: Option<i16> = row.get(at.crashes);
        let generation: Option<i32> = row.get(at.generation);
        let outage_ms: Option<i64> = row.get(at.outage_ms);
        let enqueued_at: SystemTime = row.get(at.enqueued_at);
        claimed.push(ClaimedJob {
            lease: own_lease.map_or(lease, LeaseId),
            crashes: crashes.unwrap_or(0).unsigned_abs().into(),
            payload: row.get(at.payload),
            meta: JobMeta {
                id: JobId::new(row.get(at.id)),
                queue: Arc::clone(queue),
                kind,
                attempt: row.get::<_, i32>(at.attempt).unsigned_abs(),
                max_attempts: row.get::<_, i32>(at.max_attempts).unsigned_abs(),
                generation: generation.unwrap_or(0).unsigned_abs(),
                priority: row.get::<_, Option<i16>>(at.priority).unwrap_or(0),
                enqueued_at,
                is_unique: row.get::<_, Option<bool>>(at.is_unique).unwrap_or(false),
                outage_age: outage_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
                age: since(enqueued_at),
                wait: since(row.get(at.ready_at)),
                claimed: now,
            },
        });
    }
    // DELETE returns rows in physical order.
    claimed.sort_unstable_by_key(|job| (-job.meta.priority, job.meta.id));
    claimed
}

/// The positions of the columns, looked up once instead of by name for each of a thousand rows.
struct RowColumns {
    own_lease: usize,
    id: usize,
    kind: usize,
    priority: usize,
    payload: usize,
    attempt: usize,
    max_attempts: usize,
    generation: usize,
    crashes: usize,
    enqueued_at: usize,
    ready_at: usize,
    claimed_at: usize,
    is_unique: usize,
    outage_ms: usize,
}

impl RowColumns {
    fn of(row: &Row) -> RowColumns {
        // A missing column gets a position past the end, where reading panics as it does by name.
        let at = |name: &str| {
            let place = row
                .columns()
                .iter()
                .position(|column| column.name() == name);
            place.unwrap_or(row.len())
        };
        RowColumns {
            own_lease: at("own_lease"),
            id: at("id"),
            kind: at("kind"),
            priority: at("priority"),
            payload: at("payload"),
            attempt: at("attempt"),
            max_attempts: at("max_attempts"),
            generation: at("generation"),
            crashes: at("crashes"),
            enqueued_at: at("enqueued_at"),
            ready_at: at("ready_at"),
            claimed_at: at("claimed_at"),
            is_unique: at("is_unique"),
            outage_ms: at("outage_ms"),
        }
    }
}
