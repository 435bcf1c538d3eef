//! The plan: which fault comes when, for how long and to whom. A pure function of the seed.

use std::time::Duration;

use crate::fault::Fault;

/// Quiet at the begin of a round, for everybody to start.
const PRELUDE: u64 = 1500;
/// Quiet between two faults, in milliseconds.
const GAP: std::ops::Range<u64> = 200..2200;

/// A fault at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) lasting: Duration,
    pub(crate) fault: Fault,
    /// Chooses whom it meets.
    pub(crate) whom: u32,
}

/// Plans a round of this length. One fault at a time, each over before the next and before the end.
pub(crate) fn plan(seed: u64, length: Duration, faults: &[Fault]) -> Vec<Step> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let total: u32 = faults.iter().map(|fault| fault.weight()).sum();
    let end = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mut steps = Vec::new();
    let mut at = PRELUDE;
    if total == 0 {
        return steps;
    }
    loop {
        at += dice.u64(GAP);
        let mut left = dice.u32(0..total);
        let fault = faults
            .iter()
            .find(|fault| match left.checked_sub(fault.weight()) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
        let Some(&fault) = fault else { return steps };
        let lasting = dice.u64(fault.lasts());
        let whom = dice.u32(..);
        if at + lasting > end {
            return steps;
        }
        let (from, lasting) = (Duration::from_millis(at), Duration::from_millis(lasting));
        steps.push(Step {
            at: from,
            lasting,
            fault,
            whom,
        });
        at += u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        let all = Fault::value_variants();
        let minute = Duration::from_mins(1);
        assert_eq!(plan(7, minute, all), plan(7, minute, all));
        assert_ne!(plan(7, minute, all), plan(8, minute, all));
        assert_eq!(plan(7, minute, &[]), []);
    }

    #[test]
    fn one_fault_at_a_time_and_all_are_over_at_the_end() {
        for seed in 0..200 {
            let minute = Duration::from_mins(1);
            let steps = plan(seed, minute, Fault::value_variants());
            assert!(steps.len() > 5, "seed {seed} has {} faults", steps.len());
            for pair in steps.windows(2) {
                assert!(pair[0].at + pair[0].lasting < pair[1].at, "{pair:?}");
            }
            assert!(steps.iter().all(|step| step.at + step.lasting <= minute));
        }
    }

    #[test]
    fn every_fault_comes_within_an_hour() {
        let steps = plan(1, Duration::from_hours(1), Fault::value_variants());
        for fault in Fault::value_variants() {
            assert!(
                steps.iter().any(|step| step.fault == *fault),
                "{fault} never comes"
            );
        }
    }
}
