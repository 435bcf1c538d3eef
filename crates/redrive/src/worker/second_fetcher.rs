//! Runs a second claim in parallel while the first connection cannot keep the slots busy.
//!
//! A claim waits for the server, the network and decoding in turn, so two connections raise
//! throughput by about half. The second fetcher makes no decisions: it claims one batch when asked,
//! never takes suspects, and drops its connection after 10 seconds without work.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::error::Result;
use crate::pipeline::claim::Suspects;
use crate::pipeline::claim::demand::MAX_BATCH;
use crate::pipeline::claim::search::Search;
use crate::sync::Mutex;
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::sync::thread::JoinHandle;
use crate::worker::claimer::{Claimer, Disconnected, Dispatcher};
use crate::worker::state::State;
use crate::worker::threads::spawn;

/// How long it keeps an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The kinds not to claim.
type Except = Option<Arc<[String]>>;

/// The second fetcher, as used by the first.
pub(crate) struct SecondFetcher {
    requests: Sender<Except>,
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

    /// Asks for one more batch. Does nothing while a batch is in progress.
    pub(crate) fn help(&self, except: Except) {
        _ = self.requests.try_send(except);
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
    asked: &Receiver<Except>,
) {
    let mut busy: Option<Claimer> = None;
    loop {
        let asked = match busy {
            Some(_) => asked.recv_timeout(IDLE_TIMEOUT),
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let except = match asked {
            Ok(except) => except,
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
        match claimer.claim(MAX_BATCH) {
            Ok((_, claimed)) => {
                if let Err(Disconnected) = dispatcher.dispatch(state, claimed) {
                    return;
                }
            }
            Err(error) => log::warn!("{state}: second claim failed: {error}"),
        }
    }
}
