//! Claims jobs for a fetcher and dispatches them to the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::error::Result;
use crate::pipeline::claim::demand::{Fill, MAX_BATCH};
use crate::pipeline::claim::mark::{Marks, Scan};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, Suspects, claim, claim_one};
use crate::sync::channel::Sender;
use crate::sync::{Instant, Mutex};
use crate::worker::latch::lock;
use crate::worker::state::State;

/// Claims over its own connection. All claimers of a worker share the marks.
pub(crate) struct Claimer {
    state: Arc<State>,
    db_caller: DbCaller,
    marks: Arc<Mutex<Marks>>,
    /// The suspects that it may claim at most.
    suspects: Suspects,
    /// The kinds not to claim.
    except: Option<Arc<[String]>>,
}

impl Claimer {
    pub(crate) fn new(
        state: &Arc<State>,
        db_caller: DbCaller,
        marks: &Arc<Mutex<Marks>>,
        suspects: Suspects,
    ) -> Claimer {
        Claimer {
            state: Arc::clone(state),
            db_caller,
            marks: Arc::clone(marks),
            suspects,
            except: None,
        }
    }

    /// Sets the kinds not to claim.
    pub(crate) fn leave(&mut self, except: &[String]) {
        if self.except.as_deref().unwrap_or_default() != except {
            self.except = (!except.is_empty()).then(|| except.into());
            // Jobs of a kind that was excluded may lie below the marks.
            *lock(&self.marks) = Marks::new();
        }
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
        lock(&self.marks).look(Instant::now())
    }

    /// Returns the time until a full scan is affordable.
    pub(crate) fn full_look_in(&self) -> Duration {
        lock(&self.marks).full_look_in(Instant::now())
    }

    /// Claims up to `limit` jobs.
    pub(crate) fn claim(&mut self, limit: usize) -> Result<(Scan, Vec<ClaimedJob>)> {
        let lead = self.lead(limit);
        let (look, claimed) = self.claim_from(lead, limit)?;
        if look == Scan::FromMarks && lead > 0 && claimed.is_empty() {
            // Nothing lies past the other workers' batches, but they may have skipped some jobs.
            return self.claim_from(0, limit);
        }
        Ok((look, claimed))
    }

    /// Claims from `lead` ids after the marks, unless a full scan is due.
    fn claim_from(&mut self, lead: i64, limit: usize) -> Result<(Scan, Vec<ClaimedJob>)> {
        let asked_at = Instant::now();
        let (look, ranges) = {
            let marks = lock(&self.marks);
            let look = marks.look(asked_at);
            (look, marks.ranges(look, lead))
        };
        let request = ClaimRequest {
            limit,
            ranges,
            ..self.request()
        };
        let state = Arc::clone(&self.state);
        let claimed = state.requesting(limit, || {
            self.call("claim jobs", move |session| claim(session, &request))
        })?;
        self.state.hold(&claimed);
        let places = claimed.iter().map(|job| {
            let (rank, id) = job.place();
            (rank, id.get())
        });
        let fill = Fill::of(claimed.len(), limit);
        lock(&self.marks).note(look, asked_at, asked_at.elapsed(), fill, places);
        Ok((look, claimed))
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
    /// this is one.
    pub(crate) fn claim_one(&mut self) -> Result<Vec<ClaimedJob>> {
        if self.look() == Scan::FromMarks {
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

    /// A request for one job from the start of the index.
    pub(crate) fn request(&self) -> ClaimRequest {
        ClaimRequest {
            queue: self.state.config.queue.shared_name(),
            worker: self.state.identity.id,
            kinds: self.state.config.kinds.clone(),
            except: self.except.clone(),
            alone: Arc::clone(&self.state.config.alone),
            limit: 1,
            suspects: self.suspects.min(self.state.suspects()),
            ranges: Marks::new().ranges(Scan::Full, 0),
        }
    }

    /// Calls the database with the call timeout.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = self.state.config.queue.database().call_timeout();
        self.db_caller.call(doing, deadline, work)
    }
}

/// Sends claimed jobs to the slots.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    pub(crate) jobs: Sender<Vec<ClaimedJob>>,
}

/// The worker was dropped: its slots are gone.
pub(crate) struct Disconnected;

impl Dispatcher {
    /// Sends claimed jobs to the slots, in chunks.
    pub(crate) fn dispatch(
        &self,
        state: &State,
        claimed: Vec<ClaimedJob>,
    ) -> Result<(), Disconnected> {
        state.count_claimed(claimed.len());
        let size = state.chunk(claimed.len());
        let mut claimed = claimed.into_iter();
        while !claimed.as_slice().is_empty() {
            let chunk = claimed.by_ref().take(size).collect();
            self.jobs.send(chunk).map_err(|_| Disconnected)?;
        }
        state.wake_watchdog();
        Ok(())
    }
}
