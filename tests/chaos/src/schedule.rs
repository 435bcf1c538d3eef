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

/// Plans the faults of a round. Faults never overlap, and all end before the round does.
pub(crate) fn schedule(seed: u64, length: Duration, faults: &[Fault]) -> Vec<ScheduledFault> {
    let mut random = fastrand::Rng::with_seed(seed);
    let total: u32 = faults.iter().map(|fault| fault.weight()).sum();
    let end = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mut faults_at = Vec::new();
    let mut at = QUIET_START;
    if total == 0 {
        return faults_at;
    }
    loop {
        at += random.u64(GAP);
        let mut left = random.u32(0..total);
        let fault = faults
            .iter()
            .find(|fault| match left.checked_sub(fault.weight()) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
        let Some(&fault) = fault else {
            return faults_at;
        };
        let duration = random.u64(fault.duration());
        let target = random.u32(..);
        if at + duration > end {
            return faults_at;
        }
        let (from, duration) = (Duration::from_millis(at), Duration::from_millis(duration));
        faults_at.push(ScheduledFault {
            at: from,
            duration,
            fault,
            target,
        });
        at += u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_fault_occurs_within_an_hour() {
        let planned = schedule(1, Duration::from_hours(1), Fault::value_variants());
        for fault in Fault::value_variants() {
            assert!(
                planned.iter().any(|step| step.fault == *fault),
                "{fault} does not occur"
            );
        }
    }
}
