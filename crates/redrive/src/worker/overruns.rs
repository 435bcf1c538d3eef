//! Decides how many new slots replace those whose handlers exceeded their deadlines. Pure.
//!
//! A worker keeps its slots while handlers overrun, because a new thread replaces each one. It never
//! runs more than twice its slots: further slots are replaced once a handler ends.

/// The checks in a row with more overdue handlers than slots after which they count as stuck.
///
/// It counts checks, not time: when a machine stalls, all handlers exceed their deadlines at once,
/// and need the processor before they can see that they were asked to stop.
const CHECKS_BEFORE_STUCK: u32 = 10;

/// The replacements of one worker.
#[derive(Debug)]
pub(crate) struct Overruns {
    slots: usize,
    /// Slots without a replacement.
    owed: usize,
    /// Checks in a row with more overdue handlers than slots.
    crowded_checks: u32,
}

impl Overruns {
    pub(crate) fn new(slots: usize) -> Overruns {
        Overruns {
            slots,
            owed: 0,
            crowded_checks: 0,
        }
    }

    /// Records a check: `new` handlers exceeded their deadlines since the last one, and `overdue`
    /// still run, with those. Returns how many slots to start. `None`: the worker is stuck, because its handlers do not
    /// end.
    pub(crate) fn check(&mut self, new: usize, overdue: usize) -> Option<usize> {
        self.owed += new;
        self.crowded_checks = match overdue > self.slots {
            true => self.crowded_checks + 1,
            false => 0,
        };
        if self.crowded_checks >= CHECKS_BEFORE_STUCK {
            return None;
        }
        // Besides the overdue handlers, `slots - owed` slots run.
        let room = (self.slots + self.owed).saturating_sub(overdue);
        let start = self.owed.min(room);
        self.owed -= start;
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_replaced_at_once_up_to_twice_their_number() {
        // Each step: new overruns, overdue handlers, what follows.
        let steps = [
            (0, 0, Some(0)),
            (1, 1, Some(1)),
            // It ended while the next one overran.
            (1, 1, Some(1)),
            (2, 3, Some(2)),
            // Three are overdue and three run; a fourth waits until one ends.
            (1, 4, Some(0)),
            (0, 4, Some(0)),
            (0, 3, Some(1)),
            (3, 6, Some(0)),
            (0, 5, Some(1)),
            (0, 1, Some(2)),
            (0, 0, Some(0)),
        ];
        let mut overruns = Overruns::new(3);
        for (step, (new, overdue, expected)) in steps.into_iter().enumerate() {
            assert_eq!(overruns.check(new, overdue), expected, "step {step}");
        }
    }

    #[test]
    fn a_stall_that_ends_leaves_the_worker_running() {
        let mut overruns = Overruns::new(2);
        assert_eq!(overruns.check(2, 2), Some(2));
        for _ in 0..CHECKS_BEFORE_STUCK - 1 {
            assert_eq!(overruns.check(0, 2), Some(0), "as many as slots may wait");
        }
        assert_eq!(overruns.check(2, 4), Some(0));
        for _ in 0..CHECKS_BEFORE_STUCK - 2 {
            assert_eq!(overruns.check(0, 4), Some(0));
        }
        assert_eq!(overruns.check(0, 2), Some(2));
        assert_eq!(overruns.check(1, 3), Some(0), "the count starts again");
    }

    #[test]
    fn more_handlers_than_slots_that_do_not_end_are_stuck() {
        let mut overruns = Overruns::new(1);
        assert_eq!(overruns.check(1, 1), Some(1));
        assert_eq!(overruns.check(1, 2), Some(0));
        for _ in 0..CHECKS_BEFORE_STUCK - 2 {
            assert_eq!(overruns.check(0, 2), Some(0));
        }
        assert_eq!(overruns.check(0, 2), None);
    }
}
