//! Watched: no thread of a worker ends by a panic without a word.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::floor::thread::{self, JoinHandle};
use crate::worker::state::State;

/// Starts a thread of the worker.
pub(crate) fn start(
    state: &Arc<State>,
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let state = Arc::clone(state);
    spawn(&format!("redrive-{name}"), move || {
        watched(&state, name, work);
    })
}

/// Does the work of a thread. One that panics takes the worker with it: without the thread it would
/// look alive, and do nothing.
pub(crate) fn watched(state: &State, name: &str, work: impl FnOnce()) {
    // What the panic left half done is not used any more.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        state.fail(format!("its thread `{name}` panicked"));
    }
}

/// Starts a thread that watches over itself.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| {
            Error::unavailable(format!("could not start the thread `{name}`")).caused_by(error)
        })
}
