//! The fault schedule of a round, a pure function of its seed.

use std::time::Duration;

use crate::fault::Fault;

/// No faults at first, in milliseconds, so that all processes can start.
const QUIET_START: u64 = 1500;
/// The time between two faults, in milliseconds.
const GAP: std::ops::Range<u64> = 200..2200;

/// A fault, and when to inject it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduledFault {
    pub(crate) at: Duration,
    pub(crate) duration: Duration,
    pub(crate) fault: Fault,
    /// Selects the process or table that it affects.
    pub(crate) target: u32,
}

/// Rounds whose seeds follow each other: together they inject each fault, also within a minute each.
pub(crate) const ROUNDS: u64 = 3;

/// Plans the faults of a round: first its share of the kinds, then any by their weights. Faults never overlap, and all
/// end before the round does.
pub(crate) fn schedule(seed: u64, length: Duration, faults: &[Fault]) -> Vec<ScheduledFault> {
    let mut random = fastrand::Rng::with_seed(seed);
    let end = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let of_round = (seed..).zip(faults);
    let of_round = of_round.filter(|(place, _)| place % ROUNDS == 0);
    let mut share = of_round.map(|(_, fault)| *fault);
    let of_weight = |fault: &Fault| std::iter::repeat_n(*fault, fault.weight());
    let weighted: Vec<Fault> = faults.iter().flat_map(of_weight).collect();
    let mut faults_at = Vec::new();
    let mut at = QUIET_START;
    loop {
        at += random.u64(GAP);
        let next = share.next().or_else(|| random.choice(&weighted).copied());
        let Some(fault) = next else {
            return faults_at;
        };
        let duration = random.u64(fault.duration());
        let target = random.u32(..);
        if at + duration > end {
            return faults_at;
        }
        faults_at.push(ScheduledFault {
            at: Duration::from_millis(at),
            duration: Duration::from_millis(duration),
            fault,
            target,
        });
        at += duration;
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_fault_occurs_in_the_rounds_of_the_suite() {
        let minute = |seed| schedule(seed, Duration::from_mins(1), Fault::value_variants());
        let planned: Vec<_> = (1..=ROUNDS).flat_map(minute).collect();
        for fault in Fault::value_variants() {
            assert!(
                planned.iter().any(|step| step.fault == *fault),
                "{fault} does not occur"
            );
        }
    }
}
