//! Lapses: what a worker says, once it has started, of a server that may lose what it has committed.

use crate::durability::lapses;
use crate::lane::Lane;
use crate::worker::limits::RENEWALS;
use crate::worker::state::State;
use crate::worker::trying::call_timeout;

/// Warns of each of them. Whatever comes of the question, the worker works.
pub(crate) fn mention(state: &State, lane: &mut Lane) {
    // The pulse asks, before its first beat: the leases must not wait for this.
    let deadline = call_timeout(state).min(state.config.lease / RENEWALS / 2);
    match lane.call("look at the durability of the server", deadline, lapses) {
        Ok(lapses) => {
            for lapse in lapses {
                log::warn!("queue `{}`: {lapse}", state.queue());
            }
        }
        Err(error) => log::debug!("queue `{}`: {error}", state.queue()),
    }
}
