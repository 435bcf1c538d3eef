//! A gate, at which a handler waits until the test opens it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use redrive::{Failure, Job};

use crate::payload::{Hold, Order};
use crate::tally::Tally;
use crate::wait::SOON;

/// A gate, closed at first. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    arrived: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        let state = self.shared.0.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks the caller until the gate is open. For handlers.
    pub fn pass(&self) {
        let changed = &self.shared.1;
        let mut state = self.locked();
        state.arrived += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |state| !state.open));
    }

    /// Returns a handler whose jobs wait at the gate and then succeed.
    pub fn handler(&self) -> impl Fn(&Job<Hold>) -> Result<(), Failure> + Send + Sync + 'static {
        self.passing::<Hold>()
    }

    /// Returns such a handler of another kind.
    pub fn passing<P: 'static>(
        &self,
    ) -> impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + use<P> + 'static {
        let gate = self.clone();
        move |_| {
            gate.pass();
            Ok(())
        }
    }

    /// Returns a handler whose jobs wait at the gate and then end as `end` says.
    pub fn passing_to<P: 'static, E>(
        &self,
        end: E,
    ) -> impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + use<P, E> + 'static
    where
        E: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let gate = self.clone();
        move |job| {
            gate.pass();
            end(job)
        }
    }

    /// Returns such a handler that also counts its jobs, before they wait.
    pub fn counting<E>(
        &self,
        tally: &Tally,
        end: E,
    ) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + use<E>
    where
        E: Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let (gate, tally) = (self.clone(), tally.clone());
        move |job| {
            tally.count(job.id());
            gate.pass();
            end(job)
        }
    }

    /// Opens the gate permanently.
    pub fn open(&self) {
        self.locked().open = true;
        self.shared.1.notify_all();
    }

    /// Returns the number of callers that reached the gate.
    pub fn arrived(&self) -> usize {
        self.locked().arrived
    }

    /// Waits until this many callers reached the gate.
    #[track_caller]
    pub fn wait_for(&self, callers: usize) {
        let changed = &self.shared.1;
        let (state, timeout) = changed
            .wait_timeout_while(self.locked(), SOON, |state| state.arrived < callers)
            .unwrap_or_else(PoisonError::into_inner);
        let (is_late, came) = (timeout.timed_out(), state.arrived);
        assert!(!is_late, "{came} of {callers} came to the gate");
    }
}
