//! The suites that check a change: rounds with faults, scenarios and mutants, side by side.

use std::time::Duration;

use clap::ValueEnum as _;
use redrive::Pooler;

use crate::Programs;
use crate::clock;
use crate::mutation_run;
use crate::round::Round;
use crate::scenario::Scenario;
use crate::schedule::ROUNDS;
use crate::scheduler::Task;
use crate::verdict::play;

/// The length of the rounds of the deep suite.
const ROUND: Duration = Duration::from_mins(1);
/// The weight of a round beside a scenario's 1: it keeps two cores busy.
const ROUND_WEIGHT: usize = 3;
/// The variable that names the part of the mutants.
pub(crate) const PART: &str = "REDRIVE_CHAOS_PART";
/// Jobs per second of a round. With more, few of them run under a fault.
pub(crate) const RATE: u32 = 20;
/// The scenarios of the gate.
const SMOKE: usize = 5;
/// The weight that runs at a time.
const PARALLEL: usize = 2;

/// Runs a few scenarios without mutants, which the seed chooses. Returns whether no rule was broken.
pub(crate) fn run_smoke(programs: &Programs, seed: u64) -> bool {
    let scenarios = smoke(seed);
    println!("seed {seed} chose {scenarios:?}");
    play(|| mutation_run::tasks(programs, &scenarios, &[]), PARALLEL)
}

/// Runs rounds, all scenarios and a part of the mutants: this one, or that of the day.
pub(crate) fn run_deep(programs: &Programs, part: Option<u64>) -> bool {
    let now = clock::now().unsigned_abs() / 1_000_000;
    let part = part.unwrap_or_else(|| mutation_run::part_of_day(now));
    println!("part {part} of the mutants; to run it again: {PART}={part}");
    mutation_run::is_current() && play(|| deep(programs, part), PARALLEL)
}

/// Chooses the scenarios of the gate.
fn smoke(seed: u64) -> Vec<Scenario> {
    let mut random = fastrand::Rng::with_seed(seed);
    let all = Scenario::value_variants().iter().copied();
    random.choose_multiple(all, SMOKE)
}

/// The longest tasks come first, so that the last ones to end are short.
fn deep(programs: &Programs, part: u64) -> Vec<Task<'_>> {
    let rounds = (1..=ROUNDS).map(|seed| {
        let round = Round {
            programs,
            seed,
            length: ROUND,
            faults: programs.possible_faults(),
            rate: RATE,
            pooler: Pooler::Session,
        };
        Task::new(format!("seed {seed}"), ROUND_WEIGHT, move || round.run())
    });
    let mut tasks: Vec<Task<'_>> = rounds.collect();
    let scenarios = Scenario::value_variants();
    let mutants = mutation_run::of_part(part);
    tasks.extend(mutation_run::tasks(programs, scenarios, &mutants));
    tasks
}
