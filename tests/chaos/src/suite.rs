//! The suites that check a change: rounds with faults, scenarios, mutants and the poison test, side
//! by side.

use std::time::Duration;

use clap::ValueEnum as _;
use redrive::Pooler;

use crate::Programs;
use crate::mutation_run::{self, Selection};
use crate::poison;
use crate::round::Round;
use crate::scenario::Scenario;
use crate::scheduler::Task;
use crate::verdict::{Verdict, play};

/// The rounds of the deep suite, and their length.
const ROUNDS: u64 = 3;
const ROUND: Duration = Duration::from_mins(1);
/// The weight of a round beside a scenario's 1: it keeps two cores busy.
const ROUND_WEIGHT: usize = 3;
/// The variable that names the part of the mutants.
pub(crate) const PART: &str = "REDRIVE_CHAOS_PART";
/// Jobs per second of a round.
const RATE: u32 = 20;
/// The scenarios of the gate.
const SMOKE: usize = 5;

/// How much the suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few scenarios without mutants, which the seed chooses.
    Smoke { seed: u64 },
    /// Rounds, all scenarios, this part of the mutants, and the poison test.
    Deep { part: u64 },
}

/// Runs the suite, with this much weight at a time. Returns whether no rule was broken.
pub(crate) fn run(programs: &Programs, size: Size, parallel: usize) -> bool {
    match size {
        Size::Smoke { seed } => {
            let scenarios = smoke(seed);
            println!("seed {seed} chose {scenarios:?}");
            play(|| mutation_run::scenarios(programs, &scenarios), parallel)
        }
        Size::Deep { part } => {
            if !mutation_run::is_current() {
                return false;
            }
            println!("part {part} of the mutants; to run it again: {PART}={part}");
            play(|| deep(programs, part), parallel)
        }
    }
}

/// Chooses the scenarios of the gate.
fn smoke(seed: u64) -> Vec<Scenario> {
    let mut random = fastrand::Rng::with_seed(seed);
    let all = Scenario::value_variants().iter().copied();
    random.choose_multiple(all, SMOKE)
}

/// The longest tasks come first, so that the last ones to end are short.
fn deep(programs: &Programs, part: u64) -> Vec<Task<'_, Verdict>> {
    let held = |holds: bool| match holds {
        true => Verdict::Held,
        false => Verdict::Broken,
    };
    let mut tasks = vec![Task {
        name: "poison".to_owned(),
        weight: ROUND_WEIGHT,
        work: Box::new(move || held(poison::run(programs))) as Box<dyn Fn() -> Verdict + Send>,
    }];
    tasks.extend((1..=ROUNDS).map(|seed| {
        let round = move || {
            let round = Round {
                programs,
                seed,
                length: ROUND,
                faults: programs.possible_faults(),
                rate: RATE,
                pooler: Pooler::Session,
            };
            held(round.run().has_passed())
        };
        Task {
            name: format!("seed {seed}"),
            weight: ROUND_WEIGHT,
            work: Box::new(round),
        }
    }));
    tasks.extend(mutation_run::tasks(programs, &Selection::Part(part)));
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_chooses_different_scenarios() {
        assert_eq!(smoke(7), smoke(7));
        assert_eq!(smoke(7).len(), SMOKE);
        let mut chosen: Vec<Scenario> = (0..100).flat_map(smoke).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, Scenario::value_variants(), "each has its turn");
    }
}
