//! A claimer: what a fetcher claims with, and the way from a claim to the slots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::demand::BATCH;
use crate::claim::mark::{Got, Look, Marks};
use crate::claim::{Claim, Claimed, LeaseId, Suspects, claim, claim_one};
use crate::error::Result;
use crate::floor::channel::Sender;
use crate::floor::{Instant, Mutex};
use crate::lane::Lane;
use crate::session::Session;
use crate::worker::settling::Message;
use crate::worker::state::{State, lock};

/// Claims over a connection of its own; the marks are those of all claimers of the worker.
pub(crate) struct Claimer {
    state: Arc<State>,
    lane: Lane,
    marks: Arc<Mutex<Marks>>,
    /// The most it may do about jobs that lost a worker.
    suspects: Suspects,
    /// The kinds that are left where they are.
    except: Option<Arc<[String]>>,
}

impl Claimer {
    pub(crate) fn new(
        state: &Arc<State>,
        lane: Lane,
        marks: &Arc<Mutex<Marks>>,
        suspects: Suspects,
    ) -> Claimer {
        Claimer {
            state: Arc::clone(state),
            lane,
            marks: Arc::clone(marks),
            suspects,
            except: None,
        }
    }

    /// From here on these kinds are left where they are.
    pub(crate) fn leave(&mut self, except: &[String]) {
        if self.except.as_deref().unwrap_or_default() != except {
            self.except = (!except.is_empty()).then(|| except.into());
            // Below the marks there may be what was left there.
            *lock(&self.marks) = Marks::new();
        }
    }

    /// The kinds that are left where they are.
    pub(crate) fn except(&self) -> Option<Arc<[String]>> {
        self.except.clone()
    }

    /// Claims as another claimer does that leaves these kinds.
    pub(crate) fn leave_as(&mut self, except: Option<Arc<[String]>>) {
        self.except = except;
    }

    /// How the next claim looks at the index.
    pub(crate) fn look(&self) -> Look {
        lock(&self.marks).look(Instant::now())
    }

    /// In how long the whole index may be looked at again.
    pub(crate) fn full_look_in(&self) -> Duration {
        lock(&self.marks).full_look_in(Instant::now())
    }

    /// Claims up to `limit` jobs.
    pub(crate) fn claim(&mut self, limit: usize) -> Result<(Look, Vec<Claimed>)> {
        let lead = self.lead(limit);
        let (look, claimed) = self.claim_from(lead, limit)?;
        if look == Look::Marked && lead > 0 && claimed.is_empty() {
            // Past what the others are at there is nothing; they may have left some.
            return self.claim_from(0, limit);
        }
        Ok((look, claimed))
    }

    /// Claims so many ids after the marks, unless it is time to look at everything.
    fn claim_from(&mut self, lead: i64, limit: usize) -> Result<(Look, Vec<Claimed>)> {
        let asked_at = Instant::now();
        let (look, ranges) = {
            let marks = lock(&self.marks);
            let look = marks.look(asked_at);
            (look, marks.ranges(look, lead))
        };
        let request = Claim {
            limit,
            ranges,
            ..self.request()
        };
        let state = Arc::clone(&self.state);
        let claimed = state.asking(limit, || {
            self.call("claim jobs", move |session| claim(session, &request))
        })?;
        // Here, not when it is handed out: a round may claim twice.
        if let Some(suspect) = claimed.iter().find(|job| job.is_suspect()) {
            *lock(&self.state.suspect) = Some(suspect.lease);
        }
        let ids = claimed
            .iter()
            .map(|job| (job.facts.priority, job.facts.id.get()));
        let got = if claimed.len() < limit {
            Got::All
        } else {
            Got::Enough
        };
        lock(&self.marks).note(look, asked_at, asked_at.elapsed(), got, ids);
        Ok((look, claimed))
    }

    /// How many jobs after its mark a claim begins: where the batches end that the other workers
    /// are at.
    fn lead(&self, limit: usize) -> i64 {
        match limit < BATCH {
            true => 0,
            false => self
                .state
                .others()
                .saturating_mul(i64::try_from(limit).unwrap_or(i64::MAX)),
        }
    }

    /// Claims the job that a notification told of, where new jobs go. None: it takes a claim to
    /// know whether there is any. While full looks are dear it finds nothing: it would be one.
    pub(crate) fn claim_one(&mut self) -> Result<Vec<Claimed>> {
        if self.look() == Look::Marked {
            return Ok(Vec::new());
        }
        let (request, segment) = (self.request(), self.state.segment());
        let state = Arc::clone(&self.state);
        state.asking(1, || {
            self.call("claim a job", move |session| {
                claim_one(session, &request, segment)
            })
        })
    }

    /// A claim of one job, wherever it is.
    pub(crate) fn request(&self) -> Claim {
        Claim {
            queue: self.state.config.queue.shared_name(),
            worker: self.state.settler.worker,
            kinds: self.state.config.kinds.clone(),
            except: self.except.clone(),
            alone: Arc::clone(&self.state.config.alone),
            limit: 1,
            suspects: match *lock(&self.state.suspect) {
                Some(_) => Suspects::Leave,
                None => self.suspects,
            },
            ranges: Marks::new().ranges(Look::Full, 0),
        }
    }

    /// A call to the database, with the deadline of all of them.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = self.state.config.queue.database().call_timeout();
        self.lane.call(doing, deadline, work)
    }
}

/// Where claimed jobs go.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) jobs: Sender<Claimed>,
    pub(crate) settle: Sender<Message>,
}

/// The slots or the settler are gone: the worker was dropped.
pub(crate) struct Gone;

impl Outlet {
    /// Gives claimed jobs to the slots; their leases to the settler first.
    pub(crate) fn hand_out(&self, state: &State, claimed: Vec<Claimed>) -> Result<(), Gone> {
        let mut leases: BTreeMap<LeaseId, usize> = BTreeMap::new();
        for job in &claimed {
            *leases.entry(job.lease).or_default() += 1;
            if job.is_suspect() {
                *lock(&state.suspect) = Some(job.lease);
            }
        }
        lock(&state.held).extend(leases.keys());
        for (lease, jobs) in leases {
            self.settle
                .send(Message::Opened { lease, jobs })
                .map_err(|_| Gone)?;
        }
        state.took(claimed.len());
        for job in claimed {
            self.jobs.send(job).map_err(|_| Gone)?;
        }
        Ok(())
    }
}
