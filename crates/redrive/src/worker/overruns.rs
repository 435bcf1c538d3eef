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

/// What to do after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// Start this many slots.
    Start(usize),
    /// Stop the worker: its handlers do not end.
    Stuck,
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
    /// still run, with those.
    pub(crate) fn check(&mut self, new: usize, overdue: usize) -> Replacement {
        self.owed += new;
        self.crowded_checks = match overdue > self.slots {
            true => self.crowded_checks + 1,
            false => 0,
        };
        if self.crowded_checks >= CHECKS_BEFORE_STUCK {
            return Replacement::Stuck;
        }
        // Besides the overdue handlers, `slots - owed` slots run.
        let room = (self.slots + self.owed).saturating_sub(overdue);
        let start = self.owed.min(room);
        self.owed -= start;
        Replacement::Start(start)
    }
}

#[cfg(test)]
mod tests {
    use super::Replacement::Start;
    use super::*;

    #[test]
    fn slots_are_replaced_at_once_up_to_twice_their_number() {
        // Each step: new overruns, overdue handlers, what follows.
        let steps = [
            (0, 0, Start(0)),
            (1, 1, Start(1)),
            // It ended while the next one overran.
            (1, 1, Start(1)),
            (2, 3, Start(2)),
            // Three are overdue and three run; a fourth waits until one ends.
            (1, 4, Start(0)),
            (0, 4, Start(0)),
            (0, 3, Start(1)),
            (3, 6, Start(0)),
            (0, 5, Start(1)),
            (0, 1, Start(2)),
            (0, 0, Start(0)),
        ];
        let mut overruns = Overruns::new(3);
        for (step, (new, overdue, expected)) in steps.into_iter().enumerate() {
            assert_eq!(overruns.check(new, overdue), expected, "step {step}");
        }
    }
}
