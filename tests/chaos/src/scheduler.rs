//! Runs plays in parallel, limited by their weight: they wait more than they compute, but an
//! overloaded machine delays everything.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use crate::interrupt;
use crate::verdict::Verdict;

/// A named play.
pub(crate) struct Task<'a> {
    pub(crate) name: String,
    /// Its load, where a scenario has 1.
    weight: usize,
    work: Box<dyn Fn() -> Verdict + Send + 'a>,
}

impl<'a> Task<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        weight: usize,
        work: impl Fn() -> Verdict + Send + 'a,
    ) -> Task<'a> {
        let (name, work) = (name.into(), Box::new(work));
        Task { name, weight, work }
    }
}

/// Runs all tasks in order, with at most `max_weight` at a time; a heavier task runs alone. An interrupt starts no
/// further tasks.
///
/// A panic ends only its own task, which is inconclusive: the library runs in other processes.
pub(crate) fn run_all(tasks: Vec<Task<'_>>, max_weight: usize) -> Vec<(String, Verdict)> {
    let (sender, finished) = mpsc::channel();
    let mut waiting = VecDeque::from(tasks);
    let (mut weight, mut running) = (0, 0);
    let mut verdicts = Vec::new();
    thread::scope(|scope| {
        loop {
            let fits = |next: &Task<'_>| running == 0 || weight + next.weight <= max_weight;
            let next = match waiting.front().is_some_and(fits) && !interrupt::is_requested() {
                true => waiting.pop_front(),
                false => None,
            };
            if let Some(next) = next {
                (weight, running) = (weight + next.weight, running + 1);
                let sender = sender.clone();
                scope.spawn(move || {
                    // Only the result leaves the task, so no state can be left inconsistent.
                    let verdict = catch_unwind(AssertUnwindSafe(&next.work));
                    let verdict = verdict.unwrap_or_else(|_| {
                        println!("{} panicked", next.name);
                        Verdict::Inconclusive
                    });
                    // The receiver lives as long as the scope.
                    _ = sender.send((next.weight, (next.name, verdict)));
                });
                continue;
            }
            if running == 0 {
                return;
            }
            let Ok((ended, verdict)) = finished.recv() else {
                return;
            };
            (weight, running) = (weight - ended, running - 1);
            verdicts.push(verdict);
        }
    });
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_only_its_own_task() {
        let tasks = (0..7).map(|number| {
            Task::new(number.to_string(), 1, move || {
                assert!(number != 3, "three is broken");
                Verdict::Held
            })
        });
        let verdicts = run_all(tasks.collect(), 2);
        assert_eq!(verdicts.len(), 7);
        for (name, verdict) in verdicts {
            assert_eq!(verdict == Verdict::Inconclusive, name == "3", "{name}");
        }
    }
}
