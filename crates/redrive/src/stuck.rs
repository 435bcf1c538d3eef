//! Stuck: calls that were given up by who made them, and that the server still does not answer.
//!
//! Nothing can end such a call: the driver reads until its connection breaks. What can be done is to
//! count them, so that what they hold is known and their number is bounded.

use std::sync::{Arc, OnceLock};

use crate::floor::atomic::{AtomicU8, AtomicUsize, Ordering};

/// How many calls are stuck at this moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stuck(Arc<AtomicUsize>);

/// Where a call is in its life.
const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const OVER: u8 = 2;
const GIVEN_UP: u8 = 3;

/// One call, seen by who made it and by the thread that does it.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    phase: Arc<AtomicU8>,
    stuck: Stuck,
}

impl Stuck {
    /// Those that wait for an answer to an attempt to connect: of the whole process, whichever
    /// server they wait for, because a server that is silent may be asked by a new handle each time.
    pub(crate) fn connecting() -> Stuck {
        static CONNECTING: OnceLock<Stuck> = OnceLock::new();
        CONNECTING.get_or_init(Stuck::default).clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// For a call that is about to be made.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            phase: Arc::default(),
            stuck: self.clone(),
        }
    }
}

impl Ticket {
    /// The call begins to hold something. `false`: it was given up before, and is not to begin.
    pub(crate) fn begin(&self) -> bool {
        self.phase
            .compare_exchange(WAITS, BEGUN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// The call is over, answered or not.
    pub(crate) fn end(&self) {
        if self.phase.swap(OVER, Ordering::SeqCst) == GIVEN_UP {
            self.stuck.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Nobody waits for the call any more. One that has not begun will not.
    pub(crate) fn give_up(&self) {
        let stuck = &self.stuck.0;
        // First counted, so that the end of the call never finds nothing to take back.
        stuck.fetch_add(1, Ordering::SeqCst);
        let holds =
            self.phase
                .compare_exchange(BEGUN, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst);
        if holds.is_err() {
            stuck.fetch_sub(1, Ordering::SeqCst);
            _ = self
                .phase
                .compare_exchange(WAITS, OVER, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_stuck_from_when_it_is_given_up_until_it_ends() {
        let stuck = Stuck::default();
        let call = stuck.ticket();
        assert!(call.begin());
        assert_eq!(stuck.calls(), 0, "somebody waits for it");
        call.give_up();
        assert_eq!(stuck.calls(), 1);
        call.end();
        assert_eq!(stuck.calls(), 0);
    }

    #[test]
    fn a_call_that_was_given_up_before_it_began_does_not_begin() {
        let stuck = Stuck::default();
        let call = stuck.ticket();
        call.give_up();
        assert_eq!(stuck.calls(), 0, "it holds nothing");
        assert!(!call.begin());
        call.end();
        assert_eq!(stuck.calls(), 0);
    }

    #[test]
    fn a_call_that_is_over_is_not_stuck() {
        let stuck = Stuck::default();
        let call = stuck.ticket();
        assert!(call.begin());
        call.end();
        call.give_up();
        assert_eq!(stuck.calls(), 0);
    }
}
