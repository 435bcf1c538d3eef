//! Claims jobs for a fetcher and dispatches them to the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::error::Result;
use crate::pipeline::claim::demand::{Fill, MAX_BATCH};
use crate::pipeline::claim::group_walk::GroupLook;
use crate::pipeline::claim::groups::GroupAnswer;
use crate::pipeline::claim::mark::{IndexRange, Scan};
use crate::pipeline::claim::measure::measure;
use crate::pipeline::claim::turns::chunks;
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, Parts, WantedTokens, claim_one};
use crate::pipeline::tokens::{ChargedJobs, claim_groups_with_tokens, claim_with_tokens};
use crate::sync::atomic::Ordering;
use crate::sync::handout::Giver;
use crate::sync::{Instant, Mutex};
use crate::worker::gatherer::gather;
use crate::worker::latch::lock;
use crate::worker::slot_state::{Chunk, QueuedChunk};
use crate::worker::source::{Source, Sources};
use crate::worker::state::State;

/// Claims over its own connection. All claimers of a worker share the search.
pub(crate) struct Claimer {
    pub(crate) state: Arc<State>,
    db_caller: Arc<Mutex<DbCaller>>,
    pub(crate) sources: Sources,
    /// Where it looks for jobs.
    pub(crate) source: Source,
    /// The kind whose tokens its claims take; empty: those of the queue. `None`: its jobs need none.
    pub(crate) tokens: Option<Arc<str>>,
    /// How long the last claim waits for more tokens. `None`: it needed none, or there were more than jobs.
    pub(crate) tokens_in: Option<Duration>,
    /// How many crashes its jobs may have at most.
    max_crashes: i32,
}

impl Claimer {
    pub(crate) fn new(
        state: &Arc<State>,
        db_caller: Arc<Mutex<DbCaller>>,
        max_crashes: i32,
    ) -> Claimer {
        let mut sources = Sources::default();
        Claimer {
            state: Arc::clone(state),
            db_caller,
            source: sources.of(state.kinds.as_deref(), &[]),
            sources,
            tokens: None,
            tokens_in: None,
            max_crashes,
        }
    }

    /// Claims up to `limit` jobs.
    pub(crate) fn claim(&mut self, limit: usize) -> Result<Vec<ClaimedJob>> {
        let mut claimed = Vec::new();
        for scan in self.scans(&self.source.clone())? {
            let room = limit - claimed.len();
            let lead = match scan {
                Scan::FromMarks if self.tokens.is_none() => self.lead(room),
                Scan::FromMarks | Scan::Full | Scan::Gaps | Scan::Sweep => 0,
            };
            let mut more = self.claim_from(scan, lead, room);
            if lead > 0 && more.as_ref().is_ok_and(Vec::is_empty) {
                // Nothing lies past the other workers' batches, but they may have skipped some jobs.
                more = self.claim_from(scan, 0, room);
            }
            let has_failed = more.is_err();
            add(&self.state, &mut claimed, more)?;
            if has_failed || claimed.len() >= limit || self.tokens_in.is_some() {
                break;
            }
        }
        Ok(claimed)
    }

    /// Claims with this scan. One from the marks starts `lead` ids after them.
    fn claim_from(&mut self, scan: Scan, lead: i64, limit: usize) -> Result<Vec<ClaimedJob>> {
        let answer = self.scan(
            "claim jobs",
            (&self.source.clone(), scan, lead),
            limit,
            claim_with_tokens,
            |answer| answer.as_ref().ok(),
        )?;
        self.note_tokens(answer.as_ref().map(|charged| charged.fill));
        Ok(answer.map(|charged| charged.jobs).unwrap_or_default())
    }

    /// Notes how long to wait for more tokens after a claim.
    fn note_tokens(&mut self, answer: Result<Fill, &Duration>) {
        self.tokens_in = match answer {
            Ok(Fill::Full) => self.tokens.as_ref().map(|_| Duration::ZERO),
            Ok(Fill::Partial) => None,
            Err(wait) => Some(*wait),
        };
    }

    /// Returns the scans of the next claims of a source. Measures the queue before its first one, and a large one from time
    /// to time.
    pub(crate) fn scans(&mut self, source: &Source) -> Result<Vec<Scan>> {
        self.measure(source)?;
        Ok(source.search().scans(Instant::now()))
    }

    /// Claims up to `limit` jobs from what a scan of a source reads, which starts `lead` ids after its marks. Records the
    /// jobs, as `charged` finds them in the answer. `None`: it did not search.
    pub(crate) fn scan<T: Send + 'static>(
        &mut self,
        doing: &str,
        (source, scan, lead): (&Source, Scan, i64),
        limit: usize,
        claim: impl FnOnce(&mut Session, &ClaimRequest) -> Result<T> + Send + 'static,
        charged: impl FnOnce(&T) -> Option<&ChargedJobs>,
    ) -> Result<T> {
        let (state, asked_at) = (Arc::clone(&self.state), Instant::now());
        let look = source.search().look(scan, lead);
        let request = ClaimRequest {
            parts: look.parts.clone(),
            ..self.request_of(source, limit)
        };
        let answer = state.requesting(limit, || {
            self.call(doing, move |session| claim(session, &request))
        });
        let took = asked_at.elapsed();
        match answer.as_ref().map(charged) {
            Ok(Some(charged)) => {
                state.hold(&charged.jobs);
                let found = charged.jobs.iter().chain(&charged.put_off);
                let found = found.map(ClaimedJob::place);
                let mut search = source.search();
                search.note(&look, asked_at, took, charged.fill, found);
                drop(search);
                // The jobs that lacked a token of their group are delayed until then.
                if let Some(due_at) = charged.due_at {
                    state.note_due(due_at);
                }
            }
            Ok(None) => {}
            Err(_) => source.search().note_failure(&look, asked_at, took),
        }
        answer
    }

    fn measure(&mut self, source: &Source) -> Result<()> {
        let bytes = self.state.shared.ring.ready_bytes.load(Ordering::Relaxed);
        let wanted = source.search().wants_measure(Instant::now(), bytes);
        let Some(ranks_above) = wanted else {
            return Ok(());
        };
        let queue = self.state.config.queue.shared_name();
        let measured = self.call("measure the queue", move |session| {
            measure(session, &queue, ranks_above)
        });
        let found = measured.as_ref().ok();
        source.search().measured(Instant::now(), found);
        measured.map(drop)
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
    pub(crate) fn claim_one(&mut self) -> Result<Vec<ClaimedJob>> {
        self.measure(&self.source.clone())?;
        let scans = self.source.search().scans(Instant::now());
        if self.state.breakers.limits_groups() || scans != [Scan::Full] {
            return Ok(Vec::new());
        }
        let request = self.request_of(&self.source, 1);
        let segment = self.state.shared.ring.segment.load(Ordering::Relaxed);
        let state = Arc::clone(&self.state);
        let claimed = state.requesting(1, || {
            self.call("claim a job", move |session| {
                claim_one(session, &request, segment)
            })
        })?;
        self.state.hold(&claimed);
        Ok(claimed)
    }

    /// Claims up to `limit` jobs that wait for their group. `None`: there is no token.
    pub(crate) fn claim_groups(
        &mut self,
        limit: usize,
        look: GroupLook,
    ) -> Result<Option<GroupAnswer>> {
        let request = self.request_of(&self.source, limit);
        let state = Arc::clone(&self.state);
        let answer = state.requesting(limit, || {
            self.call("claim jobs of groups", move |session| {
                claim_groups_with_tokens(session, &request, &look)
            })
        })?;
        self.note_tokens(answer.as_ref().map(|answer| answer.place.fill));
        let answer = answer.ok();
        if let Some(answer) = &answer {
            self.state.hold(&answer.claimed);
        }
        Ok(answer)
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
            limit,
            max_crashes: self.max_crashes.min(self.state.max_crashes()),
            limits_groups: self.state.breakers.limits_groups(),
            tokens: self.tokens.clone().map(|kind| WantedTokens { kind, free }),
            parts: Parts::Ranges(vec![IndexRange::ALL]),
        }
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

/// Sends claimed jobs to the slots: those of batch handlers when their batch starts, and the others in chunks.
pub(crate) fn dispatch(state: &State, slots: &Giver<QueuedChunk>, claimed: Vec<ClaimedJob>) {
    let in_flight = &state.user.in_flight;
    in_flight.fetch_add(claimed.len(), Ordering::Relaxed);
    let claimed = gather(state, slots, claimed);
    let size = state.chunk(claimed.len());
    for chunk in chunks(claimed, size, |job| job.follows) {
        slots.give((state.place, Chunk::OneByOne(chunk)));
    }
}
