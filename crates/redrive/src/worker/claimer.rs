//! A claimer: what a fetcher claims with, and the way from a claim to the slots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::mark::{Got, Look, Marks};
use crate::claim::{Claim, Claimed, LeaseId, Suspects, claim};
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
        let asked_at = Instant::now();
        let (look, ranges) = {
            let marks = lock(&self.marks);
            let look = marks.look(asked_at);
            (look, marks.ranges(look))
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
            ranges: Marks::new().ranges(Look::Full),
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
