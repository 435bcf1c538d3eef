//! The second fetcher: claims beside the first one, for as long as there is more ready than one
//! connection can fetch.
//!
//! A claim is serial: the server works, then the rows travel, then they are read. Two at once keep
//! the server busy, which is worth half as much again. The second one decides nothing: it claims
//! when the first one got a full batch, leaves suspects alone, and has a connection only while
//! there is work for it. What goes wrong with it is for the first one to find out.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::Suspects;
use crate::claim::demand::BATCH;
use crate::claim::mark::Marks;
use crate::error::Result;
use crate::floor::Mutex;
use crate::floor::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::floor::thread::JoinHandle;
use crate::lane::Lane;
use crate::worker::claimer::{Claimer, Gone, Outlet};
use crate::worker::state::State;
use crate::worker::watched::spawn;

/// How long it keeps its connection when there is nothing to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kinds that a claim leaves where they are.
type Except = Option<Arc<[String]>>;

/// The second fetcher, as the first one has it.
pub(crate) struct Second {
    asks: Sender<Except>,
    thread: JoinHandle<()>,
}

impl Second {
    /// Starts it; it takes its connection from `lane` when it is first asked for help.
    pub(crate) fn start(
        state: &Arc<State>,
        lane: impl Fn() -> Lane + Send + 'static,
        marks: &Arc<Mutex<Marks>>,
        outlet: &Outlet,
    ) -> Result<Second> {
        let (asks, asked) = bounded(1);
        let (state, marks, outlet) = (Arc::clone(state), Arc::clone(marks), outlet.clone());
        let thread = spawn("redrive-fetcher-2", move || {
            let claimer = || Claimer::new(&state, lane(), &marks, Suspects::Leave);
            work(&state, claimer, &outlet, &asked);
        })?;
        Ok(Second { asks, thread })
    }

    /// Asks it for one batch more. It does not come when it is at one already.
    pub(crate) fn help(&self, except: Except) {
        _ = self.asks.try_send(except);
    }

    /// Waits until the claim it is at is answered: after this it claims nothing.
    pub(crate) fn end(self) {
        drop(self.asks);
        // A panic there was told of by the hook, and nothing is left to be done about it.
        _ = self.thread.join();
    }
}

fn work(
    state: &Arc<State>,
    claimer: impl Fn() -> Claimer,
    outlet: &Outlet,
    asked: &Receiver<Except>,
) {
    let mut busy: Option<Claimer> = None;
    loop {
        let asked = match busy {
            Some(_) => asked.recv_timeout(PATIENCE),
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
        if state.stopping.is_ended() || state.demand() < BATCH {
            continue;
        }
        let claimer = busy.get_or_insert_with(&claimer);
        claimer.leave_as(except);
        match claimer.claim(BATCH) {
            Ok((_, claimed)) => {
                if let Err(Gone) = outlet.hand_out(state, claimed) {
                    return;
                }
            }
            Err(error) => log::warn!("queue `{}`: {error}", state.queue()),
        }
    }
}
