//! Starts supervised threads: a panic stops the worker.

use std::sync::Arc;

use crate::db::spawn::spawn;
use crate::error::Result;
use crate::job::caught::caught;
use crate::worker::latch::Alive;
use crate::worker::state::State;

/// Starts a thread of the worker, which is alive until its work and what that had are gone.
pub(crate) fn start(
    state: &Arc<State>,
    name: &'static str,
    alive: &Alive,
    work: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let (state, alive) = (Arc::clone(state), alive.clone());
    spawn(&format!("redrive-{name}"), move || {
        supervised(&state, name, work);
        drop(alive);
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
