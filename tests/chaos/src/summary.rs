//! The summary of several rounds, in one line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundResult {
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    pub(crate) faults: usize,
    /// The number of violations of each rule.
    pub(crate) violations: BTreeMap<&'static str, usize>,
    /// Why the round could not be completed.
    pub(crate) error: Option<String>,
}

impl RoundResult {
    pub(crate) fn has_passed(&self) -> bool {
        self.violations.is_empty() && self.error.is_none()
    }

    fn count(&self) -> usize {
        self.violations.values().sum()
    }
}

/// The results of all rounds.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) rounds: Vec<RoundResult>,
    /// How many rounds were planned.
    pub(crate) planned: u64,
    pub(crate) took: Duration,
}

impl Summary {
    /// Whether all rounds ran and found no violation.
    pub(crate) fn has_passed(&self) -> bool {
        self.rounds.len() as u64 == self.planned && self.rounds.iter().all(RoundResult::has_passed)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&RoundResult) -> usize| self.rounds.iter().map(of).sum::<usize>();
        let seeds = self.rounds.iter().map(|round| round.seed);
        write!(
            f,
            "{} of {} rounds, seeds {} to {}, {:.0} min: {} jobs, {} faults, {} violations",
            self.rounds.len(),
            self.planned,
            seeds.clone().min().unwrap_or_default(),
            seeds.max().unwrap_or_default(),
            self.took.as_secs_f64() / 60.0,
            sum(|round| round.jobs),
            sum(|round| round.faults),
            sum(RoundResult::count),
        )?;
        for round in self.rounds.iter().filter(|round| !round.has_passed()) {
            write!(f, "\n    seed {} failed:", round.seed)?;
            for (rule, times) in &round.violations {
                write!(f, " {rule} ({times})")?;
            }
            if let Some(error) = &round.error {
                write!(f, " {error}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seed: u64) -> RoundResult {
        RoundResult {
            seed,
            jobs: 100,
            faults: 7,
            ..RoundResult::default()
        }
    }

    #[test]
    fn a_summary_passes_when_all_rounds_ran_without_a_violation() {
        let summary = |rounds, planned| Summary {
            rounds,
            planned,
            took: Duration::from_mins(10),
        };
        let passed = summary(vec![round(7), round(8)], 2);
        assert!(passed.has_passed());
        assert_eq!(
            passed.to_string(),
            "2 of 2 rounds, seeds 7 to 8, 10 min: 200 jobs, 14 faults, 0 violations"
        );
        assert!(
            !summary(vec![round(7)], 2).has_passed(),
            "a round is missing"
        );
        let mut violated = round(8);
        violated.violations.insert("C5", 3);
        let failed = summary(vec![round(7), violated], 2);
        assert!(!failed.has_passed());
        assert!(
            failed
                .to_string()
                .ends_with("3 violations\n    seed 8 failed: C5 (3)")
        );
        let mut broken = round(9);
        broken.error = Some("no server".to_owned());
        let failed = summary(vec![broken], 1);
        assert!(!failed.has_passed());
        assert!(failed.to_string().ends_with("seed 9 failed: no server"));
    }
}
