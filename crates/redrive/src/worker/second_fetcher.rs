//! Runs a second claim in parallel while the first connection cannot keep the slots busy.
//!
//! A claim waits for the server, the network and decoding in turn, so two connections raise
//! throughput by about half. The second fetcher makes no decisions: it claims one batch when asked,
//! never takes suspects, and drops its connection after 10 seconds without work. It walks over the groups separately
//! from the first fetcher.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::error::Result;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::claim::demand::MAX_BATCH;
use crate::pipeline::claim::group_walk::SideWalk;
use crate::sync::channel::{Receiver, RecvTimeoutError};
use crate::sync::{Instant, Mutex};
use crate::worker::claimer::{Claimer, Dispatcher};
use crate::worker::latch::lock;
use crate::worker::source::Source;
use crate::worker::state::State;

/// How long it keeps an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The jobs that a fetcher claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimFrom {
    /// Those that wait for their group.
    Groups,
    /// The others.
    Ring,
}

/// A request to help with a queue, which has this place among those of the worker.
pub(crate) type Request = (usize, ClaimFrom, Source);

/// What the second fetcher knows of a queue.
pub(crate) struct Helped {
    pub(crate) state: Arc<State>,
    pub(crate) claimer: Claimer,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) walk: SideWalk,
}

/// Helps until nobody can ask any more. Connects when it is first asked.
pub(crate) fn work(db_caller: &Mutex<DbCaller>, helped: &mut [Helped], asked: &Receiver<Request>) {
    loop {
        let (queue, from, source) = match asked.recv_timeout(IDLE_TIMEOUT) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => {
                lock(db_caller).rest();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let one = &mut helped[queue];
        if !one.state.shared.stopping.is_set() && one.state.demand() >= MAX_BATCH {
            one.claim(from, source);
        }
    }
}

impl Helped {
    fn claim(&mut self, from: ClaimFrom, source: Source) {
        self.claimer.source = source;
        let claimed = match from {
            ClaimFrom::Groups => claim_groups(&self.state, &mut self.claimer, &mut self.walk),
            ClaimFrom::Ring => self.claimer.claim(MAX_BATCH),
        };
        // The first fetcher promotes the jobs that lacked a token.
        if let Some(due_at) = self.claimer.take_due() {
            self.state.note_due(due_at);
        }
        match claimed {
            Ok(claimed) => self.dispatcher.dispatch(&self.state, claimed),
            Err(error) => log::warn!("{}: second claim failed: {error:#}", self.state),
        }
    }
}

/// Claims jobs that wait for their group, far from where the first fetcher does.
fn claim_groups(
    state: &State,
    claimer: &mut Claimer,
    walk: &mut SideWalk,
) -> Result<Vec<ClaimedJob>> {
    let asked_at = Instant::now();
    let Some(look) = walk.look(asked_at, MAX_BATCH, state.in_a_row(MAX_BATCH)) else {
        return Ok(Vec::new());
    };
    let answer = claimer.claim_groups(MAX_BATCH, look)?;
    let now = Instant::now();
    let took = now.duration_since(asked_at);
    walk.note(now, took, answer.claimed.len(), answer.place);
    Ok(answer.claimed)
}
