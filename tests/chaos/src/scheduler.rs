//! Runs plays side by side: they wait more than they compute, but an overloaded machine delays everything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use crate::interrupt;
use crate::verdict::Verdict;

/// A named play.
pub(crate) struct Task<'a> {
    pub(crate) name: String,
    /// Whether nothing may run beside it.
    is_heavy: bool,
    work: Box<dyn Fn() -> Verdict + Send + 'a>,
}

impl<'a> Task<'a> {
    pub(crate) fn light(
        name: impl Into<String>,
        work: impl Fn() -> Verdict + Send + 'a,
    ) -> Task<'a> {
        let (name, work) = (name.into(), Box::new(work));
        Task {
            name,
            is_heavy: false,
            work,
        }
    }

    pub(crate) fn heavy(
        name: impl Into<String>,
        work: impl Fn() -> Verdict + Send + 'a,
    ) -> Task<'a> {
        Task {
            is_heavy: true,
            ..Task::light(name, work)
        }
    }

    /// A panic is inconclusive: the library runs in other processes.
    fn run(self) -> (String, Verdict) {
        // Only the result leaves the task, so no state can be left inconsistent.
        let verdict = catch_unwind(AssertUnwindSafe(&self.work)).unwrap_or_else(|_| {
            println!("{} panicked", self.name);
            Verdict::Inconclusive
        });
        (self.name, verdict)
    }
}

/// Runs the heavy tasks one by one, and then as many others at a time. An interrupt starts no further tasks.
pub(crate) fn run_all(tasks: Vec<Task<'_>>, threads: usize) -> Vec<(String, Verdict)> {
    let (heavy, light) = tasks.into_iter().partition(|task| task.is_heavy);
    let mut verdicts = run_at_once(heavy, 1);
    verdicts.extend(run_at_once(light, threads));
    verdicts
}

fn run_at_once(tasks: Vec<Task<'_>>, threads: usize) -> Vec<(String, Verdict)> {
    let waiting = Mutex::new(tasks.into_iter());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next().filter(|_| !interrupt::is_requested())
    };
    let work = || iter::from_fn(next).map(Task::run).collect::<Vec<_>>();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .flat_map(|verdicts| verdicts.expect("a task catches its panics"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_only_its_own_task() {
        let tasks = (0..7).map(|number| {
            Task::light(number.to_string(), move || {
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
