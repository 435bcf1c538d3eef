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

/// Which mutants and scenarios to run.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    All,
    /// Every third mutant, from this place in the list on, and all scenarios.
    Part(u64),
    /// Mutants and scenarios with these names, and the scenarios of these mutants.
    Named(Vec<String>),
}

impl Selection {
    fn mutants(&self) -> Vec<&'static Mutant> {
        let is_selected = |(at, mutant): &(u64, &Mutant)| match self {
            Selection::All => true,
            Selection::Part(part) => at % PARTS == *part,
            Selection::Named(names) => names.iter().any(|name| name == mutant.name),
        };
        let selected = (0..).zip(MUTANTS).filter(is_selected);
        selected.map(|(_, mutant)| mutant).collect()
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let mutants = self.mutants();
        let is_selected = |scenario: &Scenario| match self {
            Selection::All | Selection::Part(_) => true,
            Selection::Named(names) => {
                let value = scenario.to_possible_value();
                let is =
                    |name: &String| value.as_ref().is_some_and(|value| name == value.get_name());
                names.iter().any(is) || mutants.iter().any(|mutant| mutant.scenario == *scenario)
            }
        };
        let all = Scenario::value_variants().iter().copied();
        all.filter(is_selected).collect()
    }
}

/// Whether every mutant applies to the code. Prints those that do not.
pub(crate) fn is_current() -> bool {
    let outdated = outdated();
    for patch in &outdated {
        println!("update a mutant: {patch}");
    }
    outdated.is_empty()
}

/// Runs the selection. Returns whether no mutant survived and no rule was broken.
pub(crate) fn run(programs: &Programs, selection: &Selection) -> bool {
    is_current() && play(|| tasks(programs, selection), PARALLEL)
}

/// Returns a task for each scenario and each mutant of the selection.
pub(crate) fn tasks<'a>(programs: &'a Programs, selection: &Selection) -> Vec<Task<'a>> {
    let mut tasks = scenarios(programs, &selection.scenarios());
    let mutants = selection.mutants().into_iter();
    tasks.extend(mutants.map(|mutant| Task::new(mutant.name, 1, move || find(programs, mutant))));
    tasks
}

/// Returns a task for each scenario, without a mutant.
pub(crate) fn scenarios<'a>(programs: &'a Programs, scenarios: &[Scenario]) -> Vec<Task<'a>> {
    let tasks = scenarios.iter().copied().map(|scenario| {
        Task::new(format!("{scenario:?}"), 1, move || {
            check(programs, scenario)
        })
    });
    tasks.collect()
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
