//! Claim: moves ready jobs into a lease and charges the attempt, in one statement.

pub(crate) mod demand;
pub(crate) mod mark;
pub(crate) mod measure;
pub(crate) mod windows;
pub(crate) mod search;
pub(crate) mod turns;
pub(crate) mod group_walk;
pub(crate) mod groups;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use crate::db::run::Run;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::headers::Headers;
use crate::job::job::{JobId, JobMeta};
use crate::job::new_job::DEFAULT_ATTEMPTS;
use crate::job::payload::Json;
use crate::sync::{Instant, Row};
use demand::Fill;
use mark::{Part, Scan, rank};

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

/// A worker that claims and settles, as its letters name it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerIdentity {
    pub(crate) id: WorkerId,
    pub(crate) host: Arc<str>,
    pub(crate) version: Arc<str>,
}

/// What to claim, and for which worker.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    pub(crate) queue: Arc<str>,
    pub(crate) identity: WorkerIdentity,
    /// The kinds the worker handles. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds not to claim, because their breaker is open.
    pub(crate) except: Option<Arc<[String]>>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    /// The kinds whose jobs run together, so that none follows another one of its group.
    pub(crate) batched: Arc<[String]>,
    /// The maximum number of jobs.
    pub(crate) limit: usize,
    /// How many crashes a job may have.
    pub(crate) max_crashes: i32,
    /// Whether each group has a rate limit, so that a job with a group needs a token of this.
    pub(crate) limits_groups: bool,
    /// The kind whose limit has the tokens that it takes; empty: that of any kind without one. `None`: its jobs need
    /// none, except those of groups.
    pub(crate) limit_of: Option<Arc<str>>,
    /// How many slots are free.
    pub(crate) free: usize,
    pub(crate) scan: Scan,
    /// What the scan reads, in claim order.
    pub(crate) parts: Vec<Part>,
}

/// Returns how many crashes a job may have that runs beside one with this many.
///
/// Suspects, which are jobs that lost a worker, have a lease each and run in parallel, because most of them are innocent. If
/// one of them crashes the process, the others are blamed too. A job that would become a letter at its next crash is
/// therefore the only suspect of the workers in its process that share a pool. Those of another pool know nothing of it.
pub(crate) fn max_crashes_beside(crashes: u32) -> i32 {
    match crashes {
        0 => i32::MAX,
        1..LAST_CHANCE => LAST_CHANCE.cast_signed() - 1,
        LAST_CHANCE.. => 0,
    }
}

/// A claimed job. Its payload is decoded in the slot.
#[derive(Debug)]
pub(crate) struct ClaimedJob {
    pub(crate) lease: LeaseId,
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) crashes: u32,
    pub(crate) payload: Json,
    /// When its token is lost. `None`: it needs none.
    pub(crate) start_by: Option<Instant>,
    /// Whether it runs after the job before it, in the same turn of its group, and only if that succeeds.
    pub(crate) follows: bool,
}

impl ClaimedJob {
    /// Returns the rank and the id, which are the place of the job in the claim order.
    pub(crate) fn place(&self) -> (i32, i64) {
        let rank = rank(self.meta.priority, self.meta.generation);
        (rank, self.meta.id.get())
    }
}

/// Returns whether claims took as many jobs as there was `room` for, or as many bytes of payload as one may take.
pub(crate) fn fill(claimed: &[ClaimedJob], room: usize) -> Fill {
    let bytes = claimed.iter().map(|job| job.payload.as_str().len());
    fill_of(claimed.len(), bytes.sum(), room)
}

pub(crate) fn fill_of(jobs: usize, bytes: usize, room: usize) -> Fill {
    // A stored payload has a header of at most four bytes.
    let bytes = bytes + 4 * jobs;
    match i64::try_from(bytes) {
        Ok(bytes) if bytes < MAX_CLAIM_BYTES => Fill::of(jobs, room),
        Ok(_) | Err(_) => Fill::Full,
    }
}

/// Claims ready jobs, in claim order. Returns none if nothing is ready for this worker.
pub(crate) fn claim(session: &mut dyn Run, claim: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
    let queue = &*claim.queue;
    let doing = format!("claim jobs of queue `{queue}`");
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let sql = match claim.scan {
        Scan::Full | Scan::Gaps => &sql::CLAIM,
        Scan::FromMarks | Scan::Sweep => &sql::CLAIM_WINDOW,
    };
    let ranks: Vec<i32> = claim.parts.iter().map(|part| part.rank).collect();
    let ends = claim.parts.iter().map(|part| (part.after, part.to));
    let (after, to): (Vec<i64>, Vec<i64>) = ends.unzip();
    let rows = session.run(
        &doing,
        sql,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &&*claim.alone,
            &limit,
            &MAX_CLAIM_BYTES,
            &claim.max_crashes,
            &Uuid::new_v4(),
            &claim.identity.id.0,
            &ranks,
            &after,
            &to,
            &claim.except.as_deref(),
            &LAST_CHANCE.cast_signed(),
        ],
    )?;
    read(&rows, &claim.queue)
}

/// Claims one job of this segment after a notification. If this finds nothing, [`claim`] decides
/// whether there is a job.
pub(crate) fn claim_one(
    session: &mut Session,
    claim: &ClaimRequest,
    segment: i16,
) -> Result<Vec<ClaimedJob>> {
    let queue = &*claim.queue;
    let rows = session.query(
        &format!("claim a job of queue `{queue}`"),
        &sql::CLAIM_ONE,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &claim.except.as_deref(),
            &segment,
            &Uuid::new_v4(),
            &claim.identity.id.0,
        ],
    )?;
    read(&rows, &claim.queue)
}

/// Reads the jobs of claimed leases from their arrays, in claim order.
fn read<'a>(rows: impl IntoIterator<Item = &'a Row>, queue: &Arc<str>) -> Result<Vec<ClaimedJob>> {
    let (now, mut names) = (Instant::now(), BTreeSet::new());
    let mut claimed = Vec::new();
    for row in rows {
        let lease = LeaseId(row.get("lease_id"));
        let claimed_at: SystemTime = row.get("claimed_at");
        let since = |moment| claimed_at.duration_since(moment).unwrap_or_default();
        let ids: Vec<i64> = row.get("ids");
        let kinds: Vec<&str> = row.get("kinds");
        let payloads: Vec<Json> = row.get("payloads");
        let enqueued: Vec<SystemTime> = row.get("enqueued_at");
        let ready: Defaulted<SystemTime> = Defaulted(row.get("ready_at"));
        let priorities: Defaulted<i16> = Defaulted(row.get("priorities"));
        let attempts: Defaulted<i32> = Defaulted(row.get("attempts"));
        let max_attempts: Defaulted<i32> = Defaulted(row.get("max_attempts"));
        let generations: Defaulted<i32> = Defaulted(row.get("generations"));
        let crashes: Defaulted<i16> = Defaulted(row.get("crashes"));
        let unique_keys: Defaulted<Option<&str>> = Defaulted(row.get("unique_keys"));
        let groups: Defaulted<Option<&str>> = Defaulted(row.get("group_keys"));
        let headers: Option<Vec<Option<Json>>> = row.get("headers");
        let outages: Defaulted<Option<SystemTime>> = Defaulted(row.get("outages_since"));
        claimed.reserve(ids.len());
        let jobs = ids.into_iter().zip(kinds).zip(payloads).zip(enqueued);
        let headers_of = |n: usize| {
            let stored = headers.as_deref().and_then(|all| all.get(n)?.as_ref());
            Headers::read(stored.map(Json::as_str))
        };
        for (n, (((id, kind), payload), enqueued_at)) in jobs.enumerate() {
            claimed.push(ClaimedJob {
                lease,
                crashes: crashes.of(n, 0).unsigned_abs().into(),
                payload,
                start_by: None,
                follows: false,
                meta: Arc::new(JobMeta {
                    id: JobId::new(id),
                    queue: Arc::clone(queue),
                    kind: shared(&mut names, kind),
                    attempt: attempts.of(n, 1).unsigned_abs(),
                    max_attempts: max_attempts
                        .of(n, DEFAULT_ATTEMPTS.cast_signed())
                        .unsigned_abs(),
                    generation: generations.of(n, 0).unsigned_abs(),
                    priority: priorities.of(n, 0),
                    enqueued_at,
                    is_unique: unique_keys.of(n, None).is_some(),
                    group: groups.of(n, None).map(Arc::from),
                    headers: headers_of(n)?,
                    outage_age: outages.of(n, None).map(since),
                    age: since(enqueued_at),
                    wait: since(ready.of(n, enqueued_at)),
                    claimed: now,
                }),
            });
        }
    }
    // DELETE returns rows in physical order.
    claimed.sort_unstable_by_key(ClaimedJob::place);
    Ok(claimed)
}

/// Returns a name that jobs of one kind share.
fn shared(names: &mut BTreeSet<Arc<str>>, kind: &str) -> Arc<str> {
    if let Some(name) = names.get(kind) {
        return Arc::clone(name);
    }
    let name: Arc<str> = kind.into();
    names.insert(Arc::clone(&name));
    name
}

/// An array of a lease that is NULL if all jobs have the default.
struct Defaulted<T>(Option<Vec<T>>);

impl<T: Copy> Defaulted<T> {
    /// Returns the value of job `n`.
    fn of(&self, n: usize, default: T) -> T {
        let values = self.0.as_deref().unwrap_or_default();
        values.get(n).copied().unwrap_or(default)
    }
}
