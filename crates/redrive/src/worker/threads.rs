//! Starts supervised threads: a panic stops the worker.

use std::sync::Arc;

use crate::db::spawn::spawn;
use crate::error::Result;
use crate::job::caught::caught;
use crate::sync::thread::JoinHandle;
use crate::worker::state::State;

/// Starts a thread of the worker.
pub(crate) fn start(
    state: &Arc<State>,
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let state = Arc::clone(state);
    spawn(&format!("redrive-{name}"), move || {
        supervised(&state, name, work);
    })
}

/// Runs the work of a thread. If it panics, the worker stops, because it would look alive and do
/// nothing.
pub(crate) fn supervised(state: &State, name: &str, work: impl FnOnce()) {
    // Nothing uses what the panic left half done.
    if caught(work).is_err() {
        state.fail(format!("thread `{name}` panicked"));
    }
}
