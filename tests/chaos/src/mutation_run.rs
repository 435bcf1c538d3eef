//! A mutation run: each mutant in its scenario, and each scenario without a mutant.

use std::time::Instant;

use clap::ValueEnum as _;

use crate::Programs;
use crate::mutant::{MUTANTS, Mutant, outdated};
use crate::report;
use crate::scenario::Scenario;
use crate::scheduler::Task;
use crate::verdict::{Verdict, play, print_missing};

/// The parts of the list of mutants of which the suite runs one.
pub(crate) const PARTS: u64 = 3;
const DAY: u64 = 24 * 60 * 60;
/// How many scenarios run at a time.
const PARALLEL: usize = 3;

/// Returns the part whose turn it is on the day of a time, in seconds since 1970. Three days in a row run all mutants.
pub(crate) fn part_of_day(time: u64) -> u64 {
    time / DAY % PARTS
}

/// Returns every third mutant, from this place in the list on.
pub(crate) fn of_part(part: u64) -> Vec<&'static Mutant> {
    let mutants = (0..).zip(MUTANTS);
    let of_part = mutants.filter(|(place, _)| place % PARTS == part);
    of_part.map(|(_, mutant)| mutant).collect()
}

/// Returns the scenarios and mutants with these names, and the scenarios of these mutants; without names, all.
fn named(names: &[String]) -> (Vec<Scenario>, Vec<&'static Mutant>) {
    let is_named = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let mutants = MUTANTS.iter().filter(|mutant| is_named(mutant.name));
    let mutants: Vec<&Mutant> = mutants.collect();
    let mut scenarios = Scenario::value_variants().to_vec();
    scenarios.retain(|scenario| {
        let value = scenario.to_possible_value();
        value.is_some_and(|value| is_named(value.get_name()))
            || mutants.iter().any(|mutant| mutant.scenario == *scenario)
    });
    (scenarios, mutants)
}

/// Whether every mutant applies to the code. Prints those that do not.
pub(crate) fn is_current() -> bool {
    let outdated = outdated();
    for patch in &outdated {
        println!("update a mutant: {patch}");
    }
    outdated.is_empty()
}

/// Runs what has these names. Returns whether no mutant survived and no rule was broken.
pub(crate) fn run(programs: &Programs, names: &[String]) -> bool {
    let (scenarios, mutants) = named(names);
    is_current() && play(|| tasks(programs, &scenarios, &mutants), PARALLEL)
}

/// Returns a task for each scenario, without a mutant, and for each mutant.
pub(crate) fn tasks<'a>(
    programs: &'a Programs,
    scenarios: &[Scenario],
    mutants: &[&'static Mutant],
) -> Vec<Task<'a>> {
    let scenarios = scenarios.iter().map(|&scenario| {
        Task::new(format!("{scenario:?}"), 1, move || {
            check(programs, scenario)
        })
    });
    let mutants = mutants
        .iter()
        .map(|&mutant| Task::new(mutant.name, 1, move || find(programs, mutant)));
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
