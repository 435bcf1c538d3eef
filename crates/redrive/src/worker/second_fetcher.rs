//! Runs a second claim in parallel while the first connection cannot keep the slots busy.
//!
//! A claim waits for the server, the network and decoding in turn, so two connections raise
//! throughput by about half. The second fetcher makes no decisions: it claims one batch when asked,
//! never takes suspects or jobs that wait for their group, and drops its connection after 10 seconds without work.

use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::pipeline::claim::demand::MAX_BATCH;
use crate::sync::Mutex;
use crate::sync::channel::{Receiver, RecvTimeoutError};
use crate::worker::claimer::Claimer;
use crate::worker::latch::lock;
use crate::worker::source::Source;

/// How long it keeps an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to help with a queue, which has this place among those of the worker.
pub(crate) type Request = (usize, Arc<Source>);

/// Helps the queues until nobody can ask any more. Connects when it is first asked.
pub(crate) fn work(db_caller: &Mutex<DbCaller>, helped: &mut [Claimer], asked: &Receiver<Request>) {
    loop {
        let (queue, source) = match asked.recv_timeout(IDLE_TIMEOUT) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => {
                lock(db_caller).rest();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let claimer = &mut helped[queue];
        let state = &claimer.state;
        if state.shared.stopping.is_set() || state.demand() < MAX_BATCH {
            continue;
        }
        match claimer.claim(&source, MAX_BATCH) {
            Ok(claimed) => claimer.dispatch(claimed),
            Err(error) => log::warn!("{}: second claim failed: {error:#}", claimer.state),
        }
    }
}
