//! Abandoned calls: the caller gave up, and the server has not answered yet.
//!
//! Unless its connection has a deadline, such a call cannot be ended, because the driver reads until the
//! connection breaks. The library counts attempts to connect to bound their number.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The number of abandoned calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbandonedCalls(Arc<AtomicUsize>);

/// The phases of a call.
const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const OVER: u8 = 2;
const GIVEN_UP: u8 = 3;

/// One call, shared by its caller and the thread that makes it. By default, nobody counts it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallTicket {
    phase: Arc<AtomicU8>,
    abandoned: AbandonedCalls,
}

impl AbandonedCalls {
    pub(crate) fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns a ticket for a new call.
    pub(crate) fn ticket(&self) -> CallTicket {
        CallTicket {
            phase: Arc::default(),
            abandoned: self.clone(),
        }
    }
}

impl CallTicket {
    /// Marks the call as started. Returns `false` if it was abandoned first; it must not start
    /// then.
    pub(crate) fn begin(&self) -> bool {
        self.phase
            .compare_exchange(WAITS, BEGUN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Marks the call as ended.
    pub(crate) fn end(&self) {
        if self.phase.swap(OVER, Ordering::SeqCst) == GIVEN_UP {
            self.abandoned.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Marks the call as abandoned. Returns whether it had started; otherwise it never will.
    pub(crate) fn abandon(&self) -> bool {
        let abandoned = &self.abandoned.0;
        // Count first, so that the end of the call always finds the count to take back.
        abandoned.fetch_add(1, Ordering::SeqCst);
        let holds =
            self.phase
                .compare_exchange(BEGUN, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst);
        if holds.is_ok() {
            return true;
        }
        abandoned.fetch_sub(1, Ordering::SeqCst);
        self.phase
            .compare_exchange(WAITS, OVER, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_call_counts_until_it_ends() {
        let abandoned = AbandonedCalls::default();
        let call = abandoned.ticket();
        assert!(call.begin());
        assert_eq!(abandoned.calls(), 0, "its caller waits");
        assert!(call.abandon());
        assert_eq!(abandoned.calls(), 1);
        call.end();
        assert_eq!(abandoned.calls(), 0);
    }

    #[test]
    fn a_call_abandoned_before_it_started_never_starts() {
        let abandoned = AbandonedCalls::default();
        let call = abandoned.ticket();
        assert!(!call.abandon());
        assert_eq!(abandoned.calls(), 0, "it holds nothing");
        assert!(!call.begin());
        call.end();
        assert_eq!(abandoned.calls(), 0);
    }

    #[test]
    fn an_ended_call_is_not_abandoned() {
        let abandoned = AbandonedCalls::default();
        let call = abandoned.ticket();
        assert!(call.begin());
        call.end();
        call.abandon();
        assert_eq!(abandoned.calls(), 0);
    }
}
