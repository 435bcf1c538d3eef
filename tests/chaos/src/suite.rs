//! The suite that checks a change: rounds with faults, scenarios, mutants and the poison test,
//! side by side.

use std::time::{Duration, Instant};

use redrive::Pooler;

use crate::Programs;
use crate::checker::SHORTEST_ROUND;
use crate::mutation_run::{self, Selection};
use crate::poison;
use crate::round::Round;
use crate::scheduler::{Task, run_all};

/// The length of a round of the quick suite and of the full one.
const QUICK_ROUND: Duration = SHORTEST_ROUND;
const FULL_ROUND: Duration = Duration::from_mins(1);
/// The weight of a round beside a scenario's 1: it keeps two cores busy.
const ROUND_WEIGHT: usize = 3;
/// The variable that names the part of the mutants.
pub(crate) const PART: &str = "REDRIVE_CHAOS_PART";
/// Jobs per second of a round.
const RATE: u32 = 20;
/// Rounds and mutants of the quick suite, and rounds of the full one.
const QUICK_ROUNDS: u64 = 1;
const QUICK_MUTANTS: usize = 5;
const FULL_ROUNDS: u64 = 3;

/// How much the suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// One short round, five mutants and their scenarios.
    Quick,
    /// Three rounds of a minute, all scenarios, this part of the mutants, and the poison test.
    Full { part: u64 },
}

/// Runs the suite, with this much weight at a time. Returns whether everything passed.
pub(crate) fn run(programs: &Programs, size: Size, parallel: usize) -> bool {
    let begin = Instant::now();
    if !mutation_run::is_current() {
        return false;
    }
    let tasks = match size {
        Size::Quick => tasks(
            programs,
            (QUICK_ROUNDS, QUICK_ROUND),
            &Selection::Sample(QUICK_MUTANTS),
        ),
        Size::Full { part } => {
            println!("part {part} of the mutants; to run it again: {PART}={part}");
            let mutants = Selection::Part(part);
            let mut tasks = tasks(programs, (FULL_ROUNDS, FULL_ROUND), &mutants);
            tasks.insert(
                0,
                Task {
                    name: "poison".to_owned(),
                    weight: ROUND_WEIGHT,
                    work: Box::new(|| poison::run(programs)),
                },
            );
            tasks
        }
    };
    let planned = tasks.len();
    let reports = run_all(tasks, parallel);
    let failed: Vec<&str> = reports
        .iter()
        .filter(|report| report.result != Ok(true))
        .map(|report| &*report.name)
        .collect();
    println!(
        "{} of {planned} runs in {:.0} s ({:.0} s one after another), {} failed: {}",
        reports.len(),
        begin.elapsed().as_secs_f64(),
        reports
            .iter()
            .map(|report| report.took.as_secs_f64())
            .sum::<f64>(),
        failed.len(),
        if failed.is_empty() {
            "none".to_owned()
        } else {
            failed.join(", ")
        },
    );
    failed.is_empty() && reports.len() == planned
}

/// The longest tasks come first, so that the last ones to end are short.
fn tasks<'a>(
    programs: &'a Programs,
    (rounds, length): (u64, Duration),
    selection: &Selection,
) -> Vec<Task<'a, bool>> {
    let rounds = (1..=rounds).map(|seed| Task {
        name: format!("seed {seed}"),
        weight: ROUND_WEIGHT,
        work: Box::new(move || {
            let round = Round {
                programs,
                seed,
                length,
                faults: programs.possible_faults(),
                rate: RATE,
                pooler: Pooler::Session,
            };
            round.run().has_passed()
        }) as Box<dyn Fn() -> bool + Send>,
    });
    rounds
        .chain(mutation_run::tasks(programs, selection))
        .collect()
}
