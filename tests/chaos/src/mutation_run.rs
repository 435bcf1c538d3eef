//! A mutation run: each mutant in its scenario, and each scenario without a mutant.

use std::time::Instant;

use clap::ValueEnum as _;

use crate::Programs;
use crate::mutant::{self, Mutant, outdated};
use crate::report;
use crate::scenario::Scenario;
use crate::scheduler::Task;
use crate::verdict::{Verdict, play};

/// The parts of the list of mutants of which the suite runs one.
pub(crate) const PARTS: u64 = 3;
const DAY: u64 = 24 * 60 * 60;

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
    /// This many mutants, at equal distances in the list.
    Sample(usize),
    /// Mutants and scenarios with these names.
    Named(Vec<String>),
}

impl Selection {
    fn mutants(&self) -> Vec<&'static Mutant> {
        let all: Vec<&Mutant> = mutant::all().collect();
        match self {
            Selection::All => all,
            Selection::Part(part) => (0..)
                .zip(all)
                .filter(|(at, _)| at % PARTS == *part)
                .map(|(_, mutant)| mutant)
                .collect(),
            Selection::Sample(size) => {
                let size = (*size).clamp(1, all.len());
                (0..size).map(|at| all[at * all.len() / size]).collect()
            }
            Selection::Named(names) => all
                .into_iter()
                .filter(|mutant| names.iter().any(|name| name == mutant.name))
                .collect(),
        }
    }

    /// The scenarios to run without a mutant: those of the mutants, and those that are named.
    fn scenarios(&self) -> Vec<Scenario> {
        match self {
            Selection::All | Selection::Part(_) => Scenario::value_variants().to_vec(),
            Selection::Sample(_) => scenarios_of(&self.mutants()),
            Selection::Named(names) => {
                let is_named = |scenario: &Scenario| {
                    let value = scenario.to_possible_value();
                    value.is_some_and(|value| names.iter().any(|name| name == value.get_name()))
                };
                let mut scenarios = scenarios_of(&self.mutants());
                let all = Scenario::value_variants().iter().copied();
                scenarios.extend(all.filter(is_named));
                scenarios.sort_unstable();
                scenarios.dedup();
                scenarios
            }
        }
    }
}

fn scenarios_of(mutants: &[&Mutant]) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = mutants.iter().map(|mutant| mutant.scenario).collect();
    scenarios.sort_unstable();
    scenarios.dedup();
    scenarios
}

/// Whether every mutant applies to the code. Prints those that do not.
pub(crate) fn is_current() -> bool {
    let outdated = outdated();
    for patch in &outdated {
        println!("update a mutant: {patch}");
    }
    outdated.is_empty()
}

/// Runs the selection this many times. Returns whether no mutant survived and no rule was broken.
pub(crate) fn run(
    programs: &Programs,
    selection: &Selection,
    repeat: usize,
    parallel: usize,
) -> bool {
    if !is_current() {
        return false;
    }
    play(
        || {
            let repeat = (0..repeat).flat_map(|_| tasks(programs, selection));
            repeat.collect()
        },
        parallel,
    )
}

/// Returns a task for each scenario and each mutant of the selection.
pub(crate) fn tasks<'a>(programs: &'a Programs, selection: &Selection) -> Vec<Task<'a, Verdict>> {
    let mut tasks = scenarios(programs, &selection.scenarios());
    tasks.extend(selection.mutants().into_iter().map(|mutant| Task {
        name: mutant.name.to_owned(),
        weight: 1,
        work: Box::new(move || find(programs, mutant)) as Box<dyn Fn() -> Verdict + Send>,
    }));
    tasks
}

/// Returns a task for each scenario, without a mutant.
pub(crate) fn scenarios<'a>(
    programs: &'a Programs,
    scenarios: &[Scenario],
) -> Vec<Task<'a, Verdict>> {
    let task = |&scenario: &Scenario| Task {
        name: format!("{scenario:?}"),
        weight: 1,
        work: Box::new(move || check(programs, scenario)) as Box<dyn Fn() -> Verdict + Send>,
    };
    scenarios.iter().map(task).collect()
}

fn check(programs: &Programs, scenario: Scenario) -> Verdict {
    let begin = Instant::now();
    let run = scenario.run(programs, None);
    let time = begin.elapsed().as_secs_f64();
    let report = report::describe(&run.finished.records, &run.findings);
    let verdict = match (&*run.findings.violations, &*run.finished.missing) {
        ([], []) => Verdict::Held,
        ([], _) => Verdict::Inconclusive,
        _ => Verdict::Broken,
    };
    let report = match verdict {
        Verdict::Held => report.lines().next().unwrap_or_default(),
        Verdict::Broken | Verdict::Inconclusive => report.as_str(),
    };
    println!("{time:>6.1} s  {scenario:?}: {verdict:?}\n          {report}");
    print_missing(&run.finished.missing);
    if verdict == Verdict::Broken {
        println!("Records and server log: {}", run.finished.keep().display());
    }
    verdict
}

/// A mutant is found if its scenario breaks one of its rules.
fn find(programs: &Programs, mutant: &Mutant) -> Verdict {
    let begin = Instant::now();
    let run = mutant.scenario.run(programs, Some(mutant));
    let (time, name, scenario) = (begin.elapsed().as_secs_f64(), mutant.name, mutant.scenario);
    let mut violations = run.findings.violations.iter();
    if let Some(violation) = violations.find(|violation| mutant.rules.contains(&violation.rule)) {
        let (rule, what) = (violation.rule.number(), &violation.what);
        println!("{time:>6.1} s  {name} killed by {rule} in {scenario:?}: {what}");
        return Verdict::Held;
    }
    let report = report::describe(&run.finished.records, &run.findings);
    println!("{time:>6.1} s  {name} SURVIVED in {scenario:?}: {report}");
    print_missing(&run.finished.missing);
    match &*run.finished.missing {
        [] => Verdict::Broken,
        _ => Verdict::Inconclusive,
    }
}

fn print_missing(missing: &[String]) {
    for state in missing {
        println!("          this state did not come: {state}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_each_mutant_once_and_all_scenarios() {
        let names = |selection: Selection| selection.mutants().into_iter().map(|one| one.name);
        let mut parts: Vec<&str> = (0..PARTS)
            .flat_map(|part| names(Selection::Part(part)))
            .collect();
        let mut all: Vec<&str> = names(Selection::All).collect();
        parts.sort_unstable();
        all.sort_unstable();
        assert_eq!(parts, all);
        let scenarios = Selection::Part(1).scenarios();
        assert_eq!(scenarios, Selection::All.scenarios());
    }

    #[test]
    fn three_days_in_a_row_run_all_parts() {
        let parts = [0, DAY - 1, DAY, 2 * DAY, 3 * DAY].map(part_of_day);
        assert_eq!(parts, [0, 0, 1, 2, 0]);
    }
}
