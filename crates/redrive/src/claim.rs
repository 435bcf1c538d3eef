//! Claim: ready jobs into a lease, with the attempt charged, in one statement.

pub(crate) mod demand;
pub(crate) mod mark;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::error::Result;
use crate::floor::{Instant, Row};
use crate::job::{Facts, JobId};
use crate::payload::JsonText;
use crate::session::Session;
use crate::sql;
use mark::Range;

/// Bytes of payload after which a claim takes no further job: what a batch may cost in memory.
const CLAIM_BYTES: i64 = 8 * 1024 * 1024;

/// The identity of a lease, and the proof of holding it: random, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) Uuid);

/// The identity of a running worker: random, made anew at each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkerId(pub(crate) Uuid);

/// What to claim, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) queue: Arc<str>,
    pub(crate) worker: WorkerId,
    /// The kinds the worker handles; `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds to leave where they are, because a breaker is open; `None`: none.
    pub(crate) except: Option<Arc<[String]>>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    /// How many jobs at most.
    pub(crate) limit: usize,
    /// Whether one job that lost a worker may be among them.
    pub(crate) suspects: Suspects,
    /// Where in the index to look.
    pub(crate) ranges: Vec<Range>,
}

/// Jobs that lost their worker run one at a time, so that a killer takes nobody with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspects {
    /// One of them is running here: no further one.
    Leave,
    /// One may be claimed, in a lease of its own.
    One,
}

/// A claimed job, undecoded: the slots decode.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) lease: LeaseId,
    pub(crate) facts: Facts,
    pub(crate) crashes: u32,
    pub(crate) payload: JsonText,
}

impl Claimed {
    pub(crate) fn is_suspect(&self) -> bool {
        self.crashes > 0
    }
}

/// Claims; the jobs come in the order of the claim. None: nothing is ready for this worker.
pub(crate) fn claim(session: &mut Session, claim: &Claim) -> Result<Vec<Claimed>> {
    let queue = &*claim.queue;
    let doing = format!("claim jobs of queue `{queue}`");
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let suspects: i32 = match claim.suspects {
        Suspects::Leave => 0,
        Suspects::One => 1,
    };
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
            &CLAIM_BYTES,
            &suspects,
            &lease.0,
            &claim.worker.0,
            &from_ranks,
            &from_ids,
            &to_ranks,
            &claim.except.as_deref(),
        ],
    )?;
    Ok(read(rows, &claim.queue, lease))
}

/// Claims one job of this segment that a worker with nothing to do was just told of. None: if there
/// is anything, [`claim`] finds it.
pub(crate) fn claim_one(
    session: &mut Session,
    claim: &Claim,
    segment: i16,
) -> Result<Vec<Claimed>> {
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

/// The jobs of an answer, in the order of the claim.
fn read(rows: Vec<Row>, queue: &Arc<str>, lease: LeaseId) -> Vec<Claimed> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let at = Columns::of(first);
    let now = Instant::now();
    // One statement, one time.
    let claimed_at: SystemTime = first.get(at.claimed_at);
    let since = |moment| claimed_at.duration_since(moment).unwrap_or_default();
    let mut kind_of_last: Option<Arc<str>> = None;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in rows {
        // Jobs of one kind come in runs: they share the name.
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
        claimed.push(Claimed {
            lease: own_lease.map_or(lease, LeaseId),
            crashes: crashes.unwrap_or(0).unsigned_abs().into(),
            payload: row.get(at.payload),
            facts: Facts {
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
    // A DELETE answers in the order of the disk.
    claimed.sort_unstable_by_key(|job| (-job.facts.priority, job.facts.id));
    claimed
}

/// Where the answer has what: looked up once, and not by name in each of a thousand rows.
struct Columns {
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

impl Columns {
    fn of(row: &Row) -> Columns {
        // One that is missing is past the end, where reading it panics as it does by name.
        let at = |name: &str| {
            let place = row
                .columns()
                .iter()
                .position(|column| column.name() == name);
            place.unwrap_or(row.len())
        };
        Columns {
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
