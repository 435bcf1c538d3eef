//! Claims jobs for a fetcher and dispatches them to the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::error::{Error, Result};
use crate::pipeline::claim::demand::{Fill, MAX_BATCH};
use crate::pipeline::claim::group_walk::GroupLook;
use crate::pipeline::claim::groups::{GroupAnswer, claim_groups};
use crate::pipeline::claim::mark::{IndexRange, Scan};
use crate::pipeline::claim::measure::{Claimable, measure, store_marks};
use crate::pipeline::claim::search::{Ended, Search};
use crate::pipeline::claim::turns::chunks;
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, Parts, Suspects, claim_one};
use crate::pipeline::group_tokens::{GroupRate, claim_with_group_tokens};
use crate::sync::channel::Sender;
use crate::sync::{Instant, Mutex};
use crate::worker::latch::lock;
use crate::worker::slot_state::{Chunk, SlotsGone, ToSlots};
use crate::worker::state::State;

/// Claims over its own connection. All claimers of a worker share the search.
pub(crate) struct Claimer {
    state: Arc<State>,
    db_caller: Arc<Mutex<DbCaller>>,
    search: Arc<Mutex<Search>>,
    /// The suspects that it may claim at most.
    suspects: Suspects,
    /// The kinds not to claim.
    except: Option<Arc<[String]>>,
    /// When the first of the jobs is due again that lacked a token of their group.
    due_at: Option<Instant>,
}

impl Claimer {
    pub(crate) fn new(
        state: &Arc<State>,
        db_caller: Arc<Mutex<DbCaller>>,
        search: &Arc<Mutex<Search>>,
        suspects: Suspects,
    ) -> Claimer {
        Claimer {
            state: Arc::clone(state),
            db_caller,
            search: Arc::clone(search),
            suspects,
            except: None,
            due_at: None,
        }
    }

    /// Returns when the first of the jobs is due again that lacked a token of their group, since the last
    /// call.
    pub(crate) fn take_due(&mut self) -> Option<Instant> {
        self.due_at.take()
    }

    /// Sets the kinds not to claim.
    pub(crate) fn leave(&mut self, except: &[String]) {
        let before = self.except.as_deref().unwrap_or_default();
        if before == except {
            return;
        }
        // Jobs of a kind that was excluded may lie below the marks.
        if before.iter().any(|kind| !except.contains(kind)) {
            lock(&self.search).restart();
        }
        self.except = (!except.is_empty()).then(|| except.into());
    }

    /// The kinds not to claim.
    pub(crate) fn except(&self) -> Option<Arc<[String]>> {
        self.except.clone()
    }

    /// Sets the kinds not to claim to those of another claimer.
    pub(crate) fn leave_as(&mut self, except: Option<Arc<[String]>>) {
        self.except = except;
    }

    /// Returns which scan the next claim uses.
    pub(crate) fn look(&self) -> Scan {
        lock(&self.search).scan(Instant::now())
    }

    /// Returns the time until a claim may read what lies below the marks.
    pub(crate) fn full_look_in(&self) -> Duration {
        lock(&self.search).wait(Instant::now())
    }

    /// Claims up to `limit` jobs.
    pub(crate) fn claim(&mut self, limit: usize) -> Result<(Scan, Vec<ClaimedJob>)> {
        self.measure()?;
        let before = lock(&self.search).scans_before(Instant::now());
        let mut claimed = Vec::new();
        for scan in before {
            match self.claim_from(scan, 0, limit - claimed.len()) {
                Ok(mut more) => claimed.append(&mut more),
                Err(error) => return self.keep(claimed, error),
            }
            if claimed.len() >= limit {
                return Ok((Scan::FromMarks, claimed));
            }
        }
        match self.claim_ahead(limit - claimed.len()) {
            Ok((scan, mut more)) => {
                claimed.append(&mut more);
                Ok((scan, claimed))
            }
            Err(error) => self.keep(claimed, error),
        }
    }

    /// Returns what was claimed before an error, so that it runs. The next claim retries.
    fn keep(&self, claimed: Vec<ClaimedJob>, error: Error) -> Result<(Scan, Vec<ClaimedJob>)> {
        if claimed.is_empty() {
            return Err(error);
        }
        self.state.report_error(&error, Duration::ZERO);
        Ok((Scan::FromMarks, claimed))
    }

    /// Claims from the marks, or from the start of the index.
    fn claim_ahead(&mut self, limit: usize) -> Result<(Scan, Vec<ClaimedJob>)> {
        let scan = self.look();
        let lead = self.lead(limit);
        let claimed = self.claim_from(scan, lead, limit)?;
        if scan == Scan::FromMarks && lead > 0 && claimed.is_empty() {
            // Nothing lies past the other workers' batches, but they may have skipped some jobs.
            return Ok((scan, self.claim_from(scan, 0, limit)?));
        }
        Ok((scan, claimed))
    }

    /// Claims with this scan. One from the marks starts `lead` ids after them.
    fn claim_from(&mut self, scan: Scan, lead: i64, limit: usize) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let look = lock(&self.search).look(scan, lead);
        let request = ClaimRequest {
            limit,
            parts: look.parts(),
            ..self.request()
        };
        let state = Arc::clone(&self.state);
        let groups = state.breakers.group_rate();
        let charged = state.requesting(limit, || {
            self.call("claim jobs", move |session| {
                claim_with_group_tokens(session, &request, groups)
            })
        });
        let took = asked_at.elapsed();
        let charged = match charged {
            Ok(charged) => charged,
            Err(error) => {
                lock(&self.search).note_failure(&look, asked_at, took);
                return Err(error);
            }
        };
        self.state.hold(&charged.jobs);
        let ended = Ended {
            asked_at,
            took,
            lead,
            fill: Fill::of(charged.claimed(), limit),
        };
        let found = places(&charged.jobs).chain(places(&charged.put_off));
        lock(&self.search).note(&look, ended, found);
        self.due_at = self.due_at.into_iter().chain(charged.due_at).min();
        Ok(charged.jobs)
    }

    fn measure(&mut self) -> Result<()> {
        let (search, kinds) = (Arc::clone(&self.search), self.state.config.kinds.clone());
        let except = self.except.clone();
        self.measure_for(&search, kinds.as_deref(), except.as_deref())
    }

    /// Measures the queue before the first claim of a search for these kinds, and stores the marks of a
    /// large queue for other processes from time to time.
    pub(crate) fn measure_for(
        &mut self,
        search: &Mutex<Search>,
        kinds: Option<&[String]>,
        except: Option<&[String]>,
    ) -> Result<()> {
        let claimable =
            |state: &State| Claimable::new(state.config.queue.shared_name(), kinds, except);
        let bytes = self.state.ready_bytes();
        let wants = lock(search).wants_measure(Instant::now(), bytes);
        if let Some(ranks) = wants {
            let claimable = claimable(&self.state);
            let measured = self.call("measure the queue", move |session| {
                measure(session, &claimable, ranks)
            });
            let mut search = lock(search);
            match measured {
                Ok(measured) => search.measured(Instant::now(), measured),
                Err(error) => {
                    search.not_measured();
                    return Err(error);
                }
            }
        }
        let marks: Option<Vec<(i32, i64)>> =
            lock(search).marks_to_store(Instant::now()).map(|windows| {
                windows
                    .marks()
                    .iter()
                    .map(|(&rank, &id)| (rank, id))
                    .collect()
            });
        if let Some(marks) = marks {
            let claimable = claimable(&self.state);
            let newest = self.call("store the marks", move |session| {
                store_marks(session, &claimable, &marks)
            })?;
            lock(search).sample(Instant::now(), newest);
        }
        Ok(())
    }

    /// How many ids after its mark a claim starts: past the batches of the other workers, and past the
    /// batch that the other fetcher of this worker is claiming.
    fn lead(&self, limit: usize) -> i64 {
        if limit < MAX_BATCH {
            return 0;
        }
        let ids = |jobs: usize| i64::try_from(jobs).unwrap_or(i64::MAX);
        let of_others = self.state.other_workers().saturating_mul(ids(limit));
        of_others.saturating_add(ids(self.state.requested()))
    }

    /// Claims one job after a notification. Returns none while full scans are rationed, because
    /// this is one, and if each group has a rate limit.
    pub(crate) fn claim_one(&mut self) -> Result<Vec<ClaimedJob>> {
        self.measure()?;
        let has_group_rate = self.state.breakers.group_rate() == GroupRate::Limited;
        if has_group_rate || self.look() != Scan::Full {
            return Ok(Vec::new());
        }
        let (request, segment) = (self.request(), self.state.segment());
        let state = Arc::clone(&self.state);
        let claimed = state.requesting(1, || {
            self.call("claim a job", move |session| {
                claim_one(session, &request, segment)
            })
        })?;
        self.state.hold(&claimed);
        Ok(claimed)
    }

    /// Claims up to `limit` jobs that wait for their group.
    pub(crate) fn claim_groups(&mut self, limit: usize, look: GroupLook) -> Result<GroupAnswer> {
        let request = ClaimRequest {
            limit,
            ..self.request()
        };
        let state = Arc::clone(&self.state);
        let answer = state.requesting(limit, || {
            self.call("claim jobs of groups", move |session| {
                claim_groups(session, &request, &look)
            })
        })?;
        self.state.hold(&answer.claimed);
        Ok(answer)
    }

    /// A request for one job from the start of the index.
    pub(crate) fn request(&self) -> ClaimRequest {
        ClaimRequest {
            queue: self.state.config.queue.shared_name(),
            worker: self.state.identity.id,
            kinds: self.state.config.kinds.clone(),
            except: self.except.clone(),
            alone: Arc::clone(&self.state.config.alone),
            single: Arc::clone(&self.state.config.single),
            limit: 1,
            suspects: self.suspects.min(self.state.suspects()),
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

/// Returns the ranks and ids of jobs.
pub(crate) fn places(claimed: &[ClaimedJob]) -> impl Iterator<Item = (i32, i64)> {
    claimed.iter().map(|job| {
        let (rank, id) = job.place();
        (rank, id.get())
    })
}

/// Sends claimed jobs to the slots.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    pub(crate) jobs: ToSlots,
    /// Takes the jobs of batch handlers to the gatherer. `None`: the worker has no such handler.
    pub(crate) gather: Option<Sender<Vec<ClaimedJob>>>,
}

impl Dispatcher {
    /// Sends claimed jobs to the slots, in chunks.
    pub(crate) fn dispatch(
        &self,
        state: &State,
        claimed: Vec<ClaimedJob>,
    ) -> Result<(), SlotsGone> {
        state.count_claimed(claimed.len());
        let claimed = match &self.gather {
            None => claimed,
            Some(gather) => Self::gather(state, gather, claimed)?,
        };
        let size = state.chunk(claimed.len());
        for chunk in chunks(claimed, size, |job| job.follows) {
            let chunk = Chunk::OneByOne(chunk);
            self.jobs.send(chunk)?;
        }
        state.wake_watchdog();
        Ok(())
    }

    /// Sends the jobs of batch handlers to the gatherer. Returns the others.
    fn gather(
        state: &State,
        gather: &Sender<Vec<ClaimedJob>>,
        claimed: Vec<ClaimedJob>,
    ) -> Result<Vec<ClaimedJob>, SlotsGone> {
        let handlers = &state.config.handlers;
        let handler = |job: &ClaimedJob| handlers.batch(&job.meta.kind);
        let size = claimed.iter().filter_map(handler).map(|it| it.rule.size);
        state.set_batch_size(size.max().unwrap_or(0));
        let (batched, single): (Vec<_>, Vec<_>) =
            claimed.into_iter().partition(|job| handler(job).is_some());
        if !batched.is_empty() {
            gather.send(batched).map_err(|_| SlotsGone)?;
        }
        Ok(single)
    }
}
