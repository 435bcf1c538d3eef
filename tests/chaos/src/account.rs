//! The account: what several rounds came to, in a line to keep.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a round came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    pub(crate) faults: usize,
    /// How often each rule was broken.
    pub(crate) broken: BTreeMap<&'static str, usize>,
    /// Why it could not be played to its end.
    pub(crate) broke_off: Option<String>,
}

impl Outcome {
    pub(crate) fn is_green(&self) -> bool {
        self.broken.is_empty() && self.broke_off.is_none()
    }

    fn violations(&self) -> usize {
        self.broken.values().sum()
    }
}

/// What all of them came to.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) rounds: Vec<Outcome>,
    /// How many there should have been.
    pub(crate) planned: u64,
    pub(crate) took: Duration,
}

impl Account {
    /// Whether all were played and nothing was found.
    pub(crate) fn is_green(&self) -> bool {
        self.rounds.len() as u64 == self.planned && self.rounds.iter().all(Outcome::is_green)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Outcome) -> usize| self.rounds.iter().map(of).sum::<usize>();
        let seeds = self.rounds.iter().map(|round| round.seed);
        write!(
            f,
            "{} rounds of {}, seeds {} to {}, {:.0} min: {} jobs, {} faults, {} violations",
            self.rounds.len(),
            self.planned,
            seeds.clone().min().unwrap_or_default(),
            seeds.max().unwrap_or_default(),
            self.took.as_secs_f64() / 60.0,
            sum(|round| round.jobs),
            sum(|round| round.faults),
            sum(Outcome::violations),
        )?;
        for round in self.rounds.iter().filter(|round| !round.is_green()) {
            write!(f, "\n    seed {} is red:", round.seed)?;
            for (rule, times) in &round.broken {
                write!(f, " {rule} ({times})")?;
            }
            if let Some(why) = &round.broke_off {
                write!(f, " it broke off: {why}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seed: u64) -> Outcome {
        Outcome {
            seed,
            jobs: 100,
            faults: 7,
            ..Outcome::default()
        }
    }

    #[test]
    fn it_is_green_when_all_were_played_and_nothing_was_found() {
        let account = |rounds, planned| Account {
            rounds,
            planned,
            took: Duration::from_mins(10),
        };
        let good = account(vec![round(7), round(8)], 2);
        assert!(good.is_green());
        assert_eq!(
            good.to_string(),
            "2 rounds of 2, seeds 7 to 8, 10 min: 200 jobs, 14 faults, 0 violations"
        );
        assert!(!account(vec![round(7)], 2).is_green(), "one is missing");
        let mut broken = round(8);
        broken.broken.insert("I5", 3);
        let red = account(vec![round(7), broken], 2);
        assert!(!red.is_green());
        assert!(
            red.to_string()
                .ends_with("3 violations\n    seed 8 is red: I5 (3)")
        );
        let mut off = round(9);
        off.broke_off = Some("no server".to_owned());
        let red = account(vec![off], 1);
        assert!(!red.is_green());
        assert!(
            red.to_string()
                .ends_with("seed 9 is red: it broke off: no server")
        );
    }
}
