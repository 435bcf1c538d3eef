//! Holds the queues of a worker.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::worker::slot_state::Run;
use crate::worker::state::State;

/// The queues that the threads of a worker serve: at least one.
#[derive(Clone)]
pub(crate) struct Queues(Arc<[Arc<State>]>);

impl Queues {
    /// Returns the queues of a worker that has at least one.
    pub(crate) fn new(states: Vec<Arc<State>>) -> Queues {
        Queues(states.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<State>> {
        self.0.iter()
    }

    /// The one that speaks for all, in logs and counts of what they share.
    pub(crate) fn first(&self) -> &Arc<State> {
        &self.0[0]
    }

    /// The rows of the worker.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.iter().map(|state| state.identity.id.0).collect()
    }

    /// Returns what all slots run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Arc<Run>> {
        let firsts = self.iter().filter(|state| state.is_first_of_pool());
        firsts.flat_map(|state| state.slots.runs())
    }

    /// The shortest lease, after which the worker must have renewed.
    pub(crate) fn lease(&self) -> Duration {
        let leases = self.iter().map(|state| state.config.lease);
        leases.min().unwrap_or_default()
    }
}
