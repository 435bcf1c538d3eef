//! What runs side by side: rounds with faults, each scenario without a mutant, and each mutant in its scenario.

use std::time::{Duration, Instant};

use clap::ValueEnum as _;

use crate::mutant::{MUTANTS, Mutant};
use crate::report;
use crate::round::Round;
use crate::scenario::Scenario;
use crate::schedule::ROUNDS;
use crate::scheduler::Task;
use crate::verdict::{Verdict, play, print_missing};
use crate::{Programs, possible_faults};

/// The length of the rounds of the deep suite.
const ROUND: Duration = Duration::from_mins(1);
/// Jobs per second of a round. With more, few of them run under a fault.
pub(crate) const RATE: u32 = 20;
/// The scenarios of the gate.
const SMOKE: usize = 5;
/// How many scenarios run at a time.
const PARALLEL: usize = 2;

/// Runs a few scenarios without mutants, which the seed chooses. Returns whether no rule was broken.
pub(crate) fn run_smoke(programs: &Programs, seed: u64) -> bool {
    let scenarios = smoke(seed);
    println!("seed {seed} chose {scenarios:?}");
    play(&tasks(programs, &scenarios, &[]), PARALLEL)
}

/// Runs rounds, all scenarios and all mutants.
pub(crate) fn run_deep(programs: &Programs) -> bool {
    let first = Round {
        programs,
        seed: 1,
        length: ROUND,
        faults: possible_faults(programs),
        rate: RATE,
        is_pooled: false,
    };
    // Each round keeps two cores busy.
    let rounds = run_rounds(&first, ROUNDS);
    let others = tasks(programs, Scenario::value_variants(), MUTANTS);
    play(&others, PARALLEL) && rounds
}

/// Runs this many rounds, one by one, each with the next seed.
pub(crate) fn run_rounds(first: &Round<'_>, count: u64) -> bool {
    let rounds = (first.seed..first.seed + count).map(|seed| Round {
        seed,
        ..first.clone()
    });
    let rounds = rounds.map(|round| Task::new(format!("seed {}", round.seed), move || round.run()));
    play(&rounds.collect::<Vec<_>>(), 1)
}

/// Runs the scenarios and mutants with these names. Returns whether no mutant survived and no rule was broken.
pub(crate) fn run_mutants(programs: &Programs, names: &[String]) -> bool {
    let (scenarios, mutants) = named(names);
    play(&tasks(programs, &scenarios, &mutants), PARALLEL)
}

/// Chooses the scenarios of the gate.
fn smoke(seed: u64) -> Vec<Scenario> {
    let mut random = fastrand::Rng::with_seed(seed);
    let all = Scenario::value_variants().iter().copied();
    random.choose_multiple(all, SMOKE)
}

/// Returns the scenarios and mutants with these names, and the scenarios of these mutants; without names, all.
fn named(names: &[String]) -> (Vec<Scenario>, Vec<Mutant>) {
    let is_named = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let mutants = MUTANTS.iter().filter(|mutant| is_named(mutant.name));
    let mutants: Vec<Mutant> = mutants.copied().collect();
    let mut scenarios = Scenario::value_variants().to_vec();
    scenarios.retain(|scenario| {
        let value = scenario.to_possible_value();
        value.is_some_and(|value| is_named(value.get_name()))
            || mutants.iter().any(|mutant| mutant.scenario == *scenario)
    });
    (scenarios, mutants)
}

/// Returns a task for each scenario, without a mutant, and for each mutant.
fn tasks<'a>(programs: &'a Programs, scenarios: &[Scenario], mutants: &[Mutant]) -> Vec<Task<'a>> {
    let scenarios = scenarios
        .iter()
        .map(|&scenario| Task::new(format!("{scenario:?}"), move || check(programs, scenario)));
    let mutants = mutants
        .iter()
        .map(|&mutant| Task::new(mutant.name, move || find(programs, &mutant)));
    scenarios.chain(mutants).collect()
}

fn check(programs: &Programs, scenario: Scenario) -> Verdict {
    let begin = Instant::now();
    let (finished, findings) = scenario.run(programs, None);
    Verdict::announce(&format!("{scenario:?}"), begin, finished, &findings)
}

/// A mutant is found if its scenario breaks one of its rules.
fn find(programs: &Programs, mutant: &Mutant) -> Verdict {
    let begin = Instant::now();
    let (finished, findings) = mutant.scenario.run(programs, Some(mutant));
    let (time, name, scenario) = (begin.elapsed().as_secs_f64(), mutant.name, mutant.scenario);
    let mut violations = findings.violations.iter();
    if let Some(violation) = violations.find(|violation| mutant.rules.contains(&violation.rule)) {
        let (rule, what) = (violation.rule.number(), &violation.what);
        println!("{time:>6.1} s  {name} killed by {rule} in {scenario:?}: {what}");
        return Verdict::Held;
    }
    let report = report::describe(&finished.records, &findings);
    println!("{time:>6.1} s  {name} SURVIVED in {scenario:?}: {report}");
    print_missing(&finished.missing);
    match &*finished.missing {
        [] => Verdict::Broken,
        _ => Verdict::Inconclusive,
    }
}
