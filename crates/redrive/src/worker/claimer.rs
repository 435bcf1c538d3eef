//! Claims jobs for a fetcher and dispatches them to the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::error::{Error, Result};
use crate::pipeline::claim::demand::{Fill, MAX_BATCH};
use crate::pipeline::claim::mark::{Scan, between};
use crate::pipeline::claim::measure::measure;
use crate::pipeline::claim::turns::chunks;
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim_one};
use crate::pipeline::tokens::{claim_groups_with_tokens, claim_with_tokens};
use crate::sync::atomic::Ordering;
use crate::sync::handout::Giver;
use crate::sync::{Instant, Mutex};
use crate::worker::gatherer::{gather, start_due};
use crate::worker::latch::lock;
use crate::worker::slot_state::{Chunk, QueuedChunk};
use crate::worker::source::Source;
use crate::worker::state::State;

/// Claims over its own connection, and takes the jobs to the slots.
pub(crate) struct Claimer {
    pub(crate) state: Arc<State>,
    db_caller: Arc<Mutex<DbCaller>>,
    slots: Giver<QueuedChunk>,
    /// How many crashes its jobs may have at most.
    max_crashes: i32,
}

impl Claimer {
    pub(crate) fn new(
        state: &Arc<State>,
        db_caller: &Arc<Mutex<DbCaller>>,
        slots: &Giver<QueuedChunk>,
        max_crashes: i32,
    ) -> Claimer {
        Claimer {
            state: Arc::clone(state),
            db_caller: Arc::clone(db_caller),
            slots: slots.clone(),
            max_crashes,
        }
    }

    /// Claims up to `limit` jobs that do not wait for a group.
    pub(crate) fn claim(&mut self, source: &Source, limit: usize) -> Result<Vec<ClaimedJob>> {
        let mut claimed = Vec::new();
        for scan in self.scans(source)? {
            let room = limit - claimed.len();
            let lead = match scan {
                Scan::FromMarks if source.limit.is_none() => self.lead(room),
                Scan::FromMarks | Scan::Full | Scan::Gaps | Scan::Sweep => 0,
            };
            let mut more = self.scan(source, scan, lead, room);
            if lead > 0 && more.as_ref().is_ok_and(Vec::is_empty) {
                // Nothing lies past the other workers' batches, but they may have skipped some jobs.
                more = self.scan(source, scan, 0, room);
            }
            let has_failed = more.is_err();
            add(&self.state, &mut claimed, more)?;
            if has_failed || claimed.len() >= limit || source.lacks_tokens() {
                break;
            }
        }
        Ok(claimed)
    }

    /// Returns the scans of the next claims. Measures the queue before the first one, and a large one from time to time.
    fn scans(&mut self, source: &Source) -> Result<Vec<Scan>> {
        let bytes = self.state.shared.ring.ready_bytes.load(Ordering::Relaxed);
        let wanted = source.search().wants_measure(Instant::now(), bytes);
        if let Some(ranks_above) = wanted {
            let call = measure(self.state.queue(), ranks_above);
            let measured = self.call("measure the queue", call);
            let found = measured.as_ref().ok();
            source.search().measured(Instant::now(), found);
            measured?;
        }
        Ok(source.search().scans(Instant::now()))
    }

    /// Claims up to `limit` jobs from what a scan reads. One from the marks starts `lead` ids after them.
    fn scan(
        &mut self,
        source: &Source,
        scan: Scan,
        lead: i64,
        limit: usize,
    ) -> Result<Vec<ClaimedJob>> {
        let (look, asked_at) = (source.search().look(scan, lead), Instant::now());
        let request = ClaimRequest {
            scan: look.scan,
            parts: look.parts.clone(),
            ..self.request_of(source, limit)
        };
        let answer = self.claiming("claim jobs", limit, move |session| {
            claim_with_tokens(session, &request)
        });
        let took = asked_at.elapsed();
        if answer.is_err() {
            source.search().note_failure(&look, asked_at, took);
        }
        let Some(charged) = with_tokens(source, answer?, |charged| charged.fill) else {
            return Ok(Vec::new());
        };
        self.state.hold(&charged.jobs);
        let found = charged.jobs.iter().chain(&charged.put_off);
        let found = found.map(ClaimedJob::place);
        let mut search = source.search();
        search.note(&look, asked_at, took, charged.fill, found);
        drop(search);
        // The jobs that lacked a token of their group are delayed until then.
        if let Some(due_at) = charged.due_at {
            self.state.note_due(due_at);
        }
        Ok(charged.jobs)
    }

    /// How many ids after its mark a claim starts: past the batches of the other workers, and past the
    /// batch that the other fetcher of this worker is claiming.
    fn lead(&self, limit: usize) -> i64 {
        if limit < MAX_BATCH {
            return 0;
        }
        let ids = |jobs: usize| i64::try_from(jobs).unwrap_or(i64::MAX);
        let others = self.state.other_workers.load(Ordering::Relaxed);
        let of_others = others.saturating_mul(ids(limit));
        of_others.saturating_add(ids(self.state.requested()))
    }

    /// Claims one job after a notification. Returns none in a large queue, because this is a full scan,
    /// and if each group has a rate limit.
    pub(crate) fn claim_one(&mut self, source: &Source) -> Result<Vec<ClaimedJob>> {
        if self.scans(source)? != [Scan::Full] || self.state.breakers.limits_groups() {
            return Ok(Vec::new());
        }
        let request = self.request_of(source, 1);
        let segment = self.state.shared.ring.segment.load(Ordering::Relaxed);
        let claimed = self.claiming("claim a job", 1, move |session| {
            claim_one(session, &request, segment)
        })?;
        self.state.hold(&claimed);
        Ok(claimed)
    }

    /// Claims up to `limit` jobs that wait for their group.
    pub(crate) fn claim_groups(
        &mut self,
        source: &Source,
        limit: usize,
    ) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let in_a_row = match source.limit {
            None => self.state.in_a_row(limit),
            // A follower would wait too long to use its token.
            Some(_) => 1,
        };
        let look = source.walk().look(limit, in_a_row);
        let request = self.request_of(source, limit);
        let answer = self.claiming("claim jobs of groups", limit, move |session| {
            claim_groups_with_tokens(session, &request, &look)
        })?;
        let Some((claimed, place)) = with_tokens(source, answer, |(_, place)| place.fill) else {
            return Ok(Vec::new());
        };
        self.state.hold(&claimed);
        let now = Instant::now();
        let took = now.duration_since(asked_at);
        source.walk().note(now, took, claimed.len(), place);
        Ok(claimed)
    }

    /// A request for jobs of a source, from the start of the index.
    fn request_of(&self, source: &Source, limit: usize) -> ClaimRequest {
        let free = self.state.slots.count;
        let free = free.saturating_sub(self.state.in_flight());
        ClaimRequest {
            queue: self.state.config.queue.shared_name(),
            identity: self.state.identity.clone(),
            kinds: source.kinds.clone(),
            except: source.except.clone(),
            alone: Arc::clone(&self.state.alone),
            batched: Arc::clone(&self.state.batched),
            limit,
            max_crashes: self.max_crashes.min(self.state.max_crashes()),
            limits_groups: self.state.breakers.limits_groups(),
            limit_of: source.limit.clone(),
            free,
            scan: Scan::Full,
            parts: between([]),
        }
    }

    /// Runs a claim of up to so many jobs, which no other fetcher requests meanwhile.
    fn claiming<T: Send + 'static>(
        &mut self,
        doing: &str,
        jobs: usize,
        claim: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let state = Arc::clone(&self.state);
        state.requested.fetch_add(jobs, Ordering::Relaxed);
        let answer = self.call(doing, claim);
        state.requested.fetch_sub(jobs, Ordering::Relaxed);
        if answer.as_ref().is_err_and(Error::is_unavailable) && state.shared.stopping.is_set() {
            state.shared.claim_unanswered.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Calls the database with the call timeout.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = self.state.config.queue.database().call_timeout();
        lock(&self.db_caller).call(doing, deadline, work)
    }

    /// Sends claimed jobs to the slots: those of batch handlers when their batch starts, and the others in chunks.
    pub(crate) fn dispatch(&self, claimed: Vec<ClaimedJob>) {
        let state = &self.state;
        let in_flight = &state.user.in_flight;
        in_flight.fetch_add(claimed.len(), Ordering::Relaxed);
        let claimed = gather(state, &self.slots, claimed);
        let size = state.chunk(claimed.len());
        for chunk in chunks(claimed, size, |job| job.follows) {
            self.slots.give((state.place, Chunk::OneByOne(chunk)));
        }
    }

    /// Starts the batches that are due. Returns when the next one is.
    pub(crate) fn start_batches(&self) -> Option<Instant> {
        start_due(&self.state, |batch| self.slots.give(batch))
    }
}

/// Records what a claim learned about the tokens of its source. `None`: there was none, so it claimed nothing.
fn with_tokens<T>(
    source: &Source,
    answer: Result<T, Duration>,
    fill: impl FnOnce(&T) -> Fill,
) -> Option<T> {
    source.note_tokens(match answer.as_ref().map(fill) {
        Ok(Fill::Full) => source.limit.as_ref().map(|_| Duration::ZERO),
        Ok(Fill::Partial) => None,
        Err(wait) => Some(*wait),
    });
    answer.ok()
}

/// Adds what a claim returned to the jobs of the claims before it. Those run, even if it failed; the next round
/// retries.
pub(crate) fn add(
    state: &State,
    claimed: &mut Vec<ClaimedJob>,
    more: Result<Vec<ClaimedJob>>,
) -> Result<()> {
    match more {
        Ok(mut more) => claimed.append(&mut more),
        Err(error) if claimed.is_empty() => return Err(error),
        Err(error) => state.report_error(&error, Duration::ZERO),
    }
    Ok(())
}
