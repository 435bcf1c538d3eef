//! What a play shows: only a broken rule is a failure.

use std::time::Instant;

use crate::checker::Findings;
use crate::environment::Finished;
use crate::report;
use crate::scheduler::{Task, run_all};

/// The verdict about a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All rules held, or the mutant was found.
    Held,
    /// A rule was broken, or a mutant survived although its state came.
    Broken,
    /// The state to check did not come, or the play could not be set up.
    Inconclusive,
}

impl Verdict {
    /// Judges a play without a mutant, and prints what it showed.
    pub(crate) fn announce(
        play: &str,
        begin: Instant,
        finished: Finished,
        findings: &Findings,
    ) -> Verdict {
        let verdict = Verdict::of(&finished, findings);
        let report = report::describe(&finished.records, findings);
        let report = match verdict {
            Verdict::Held => report.lines().next().unwrap_or_default(),
            Verdict::Broken | Verdict::Inconclusive => report.as_str(),
        };
        let time = begin.elapsed().as_secs_f64();
        println!("{time:>6.1} s  {play}: {verdict:?}\n          {report}");
        print_missing(&finished.missing);
        if verdict == Verdict::Broken {
            println!("Records and server log: {}", finished.keep().display());
        }
        verdict
    }

    fn of(finished: &Finished, findings: &Findings) -> Verdict {
        match (&*findings.violations, &*finished.missing) {
            ([], []) => Verdict::Held,
            ([], _) => Verdict::Inconclusive,
            _ => Verdict::Broken,
        }
    }
}

pub(crate) fn print_missing(missing: &[String]) {
    for state in missing {
        println!("          this state did not come: {state}");
    }
}

/// Plays everything, this much at a time, and what was inconclusive once more, alone.
/// Returns whether nothing was broken and something held.
pub(crate) fn play(tasks: &[Task<'_>], parallel: usize) -> bool {
    let begin = Instant::now();
    let all: Vec<&Task<'_>> = tasks.iter().collect();
    let mut verdicts = run_all(&all, parallel);
    let is_open = |one: &mut (_, Verdict)| one.1 == Verdict::Inconclusive;
    let open = verdicts.extract_if(.., is_open);
    let again: Vec<&Task<'_>> = open.map(|(task, _)| task).collect();
    for task in &again {
        println!("inconclusive, once more alone: {}", task.name);
    }
    verdicts.extend(run_all(&again, 1));
    let named = |wanted: Verdict| {
        let found = verdicts.iter().filter(|(_, verdict)| *verdict == wanted);
        let names: Vec<&str> = found.map(|(task, _)| &*task.name).collect();
        match &*names {
            [] => "none".to_owned(),
            names => names.join(", "),
        }
    };
    println!(
        "{} of {} plays in {:.0} s; broken: {}; INCONCLUSIVE: {}",
        verdicts.len(),
        tasks.len(),
        begin.elapsed().as_secs_f64(),
        named(Verdict::Broken),
        named(Verdict::Inconclusive),
    );
    is_green(&verdicts, tasks.len())
}

/// Whether all plays ran, no rule was broken, and at least one play showed something.
fn is_green<T>(verdicts: &[(T, Verdict)], planned: usize) -> bool {
    let has = |wanted: Verdict| verdicts.iter().any(|(_, verdict)| *verdict == wanted);
    verdicts.len() == planned && has(Verdict::Held) && !has(Verdict::Broken)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_a_broken_rule_or_no_conclusion_at_all_is_red() {
        use Verdict::{Broken, Held, Inconclusive};
        let cases: [(&[Verdict], bool); 6] = [
            (&[Held, Held], true),
            (&[Held, Inconclusive], true),
            (&[Held, Broken], false),
            (&[Inconclusive, Inconclusive], false),
            (&[Held], false),
            (&[], false),
        ];
        for (verdicts, green) in cases {
            let verdicts: Vec<_> = verdicts.iter().map(|&one| ((), one)).collect();
            assert_eq!(is_green(&verdicts, 2), green, "{verdicts:?}");
        }
    }

    #[test]
    fn an_inconclusive_play_is_played_once_more() {
        let plays = AtomicUsize::new(0);
        let plays = &plays;
        let tasks = |broken_at: usize| {
            [Task::new("late", move || {
                match plays.fetch_add(1, Ordering::SeqCst) {
                    0 => Verdict::Inconclusive,
                    at if at == broken_at => Verdict::Broken,
                    _ => Verdict::Held,
                }
            })]
        };
        assert!(play(&tasks(7), 2));
        assert_eq!(plays.swap(0, Ordering::SeqCst), 2);
        assert!(!play(&tasks(1), 2), "broken at the second play");
    }
}
