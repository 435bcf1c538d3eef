//! Runs a second claim in parallel while the first connection cannot keep the slots busy.
//!
//! A claim waits for the server, the network and decoding in turn, so two connections raise
//! throughput by about half. The second fetcher makes no decisions: it claims one batch when asked,
//! never takes suspects, and drops its connection after 10 seconds without work. It walks over the groups separately
//! from the first fetcher.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::spawn::spawn;
use crate::error::Result;
use crate::pipeline::claim::demand::MAX_BATCH;
use crate::pipeline::claim::search::Search;
use crate::pipeline::claim::side_walk::SideWalk;
use crate::pipeline::claim::{ClaimedJob, Suspects};
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::sync::thread::JoinHandle;
use crate::sync::{Instant, Mutex};
use crate::worker::claimer::{Claimer, Disconnected, Dispatcher};
use crate::worker::state::State;

/// How long it keeps an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The kinds not to claim.
type Except = Option<Arc<[String]>>;

/// The jobs that a fetcher claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimFrom {
    /// Those that wait for their group.
    Groups,
    /// The others.
    Ring,
}

/// The second fetcher, as used by the first.
pub(crate) struct SecondFetcher {
    requests: Sender<(ClaimFrom, Except)>,
    thread: JoinHandle<()>,
}

impl SecondFetcher {
    /// Starts its thread. It connects when it is first asked to help.
    pub(crate) fn start(
        state: &Arc<State>,
        db_caller: impl Fn() -> DbCaller + Send + 'static,
        search: &Arc<Mutex<Search>>,
        dispatcher: &Dispatcher,
    ) -> Result<SecondFetcher> {
        let (requests, asked) = bounded(1);
        let (state, search, dispatcher) =
            (Arc::clone(state), Arc::clone(search), dispatcher.clone());
        let thread = spawn("redrive-fetcher-2", move || {
            let claimer = || Claimer::new(&state, db_caller(), &search, Suspects::Leave);
            work(&state, claimer, &dispatcher, &asked);
        })?;
        Ok(SecondFetcher { requests, thread })
    }

    /// Asks for one more batch, after the one in progress. Does nothing if another request waits.
    pub(crate) fn help(&self, from: ClaimFrom, except: Except) {
        _ = self.requests.try_send((from, except));
    }

    /// Waits for the claim in progress and ends the thread.
    pub(crate) fn end(self) {
        drop(self.requests);
        // The panic hook has reported a panic.
        _ = self.thread.join();
    }
}

fn work(
    state: &Arc<State>,
    claimer: impl Fn() -> Claimer,
    dispatcher: &Dispatcher,
    asked: &Receiver<(ClaimFrom, Except)>,
) {
    let mut busy: Option<Claimer> = None;
    let mut walk = SideWalk::new();
    loop {
        let asked = match busy {
            Some(_) => asked.recv_timeout(IDLE_TIMEOUT),
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let (from, except) = match asked {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => {
                busy = None;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if state.stopping.is_set() || state.demand() < MAX_BATCH {
            continue;
        }
        let claimer = busy.get_or_insert_with(&claimer);
        claimer.leave_as(except);
        let claimed = match from {
            ClaimFrom::Groups => claim_groups(state, claimer, &mut walk),
            ClaimFrom::Ring => claimer.claim(MAX_BATCH).map(|(_, claimed)| claimed),
        };
        match claimed {
            Ok(claimed) => {
                if let Err(Disconnected) = dispatcher.dispatch(state, claimed) {
                    return;
                }
            }
            Err(error) => log::warn!("{state}: second claim failed: {error:#}"),
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
