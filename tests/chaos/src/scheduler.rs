//! Runs plays side by side: they wait more than they compute, but an overloaded machine delays everything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use crate::interrupt;
use crate::verdict::Verdict;

/// A named play.
pub(crate) struct Task<'a> {
    pub(crate) name: String,
    work: Box<dyn Fn() -> Verdict + Send + Sync + 'a>,
}

impl<'a> Task<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        work: impl Fn() -> Verdict + Send + Sync + 'a,
    ) -> Task<'a> {
        let (name, work) = (name.into(), Box::new(work));
        Task { name, work }
    }

    /// A panic is inconclusive: the library runs in other processes.
    fn run(&self) -> Verdict {
        // Only the result leaves the task, so no state can be left inconsistent.
        catch_unwind(AssertUnwindSafe(&self.work)).unwrap_or_else(|_| {
            println!("{} panicked", self.name);
            Verdict::Inconclusive
        })
    }
}

/// Runs this many tasks at a time. An interrupt starts no further tasks.
pub(crate) fn run_all<'a>(tasks: &[&'a Task<'a>], threads: usize) -> Vec<(&'a Task<'a>, Verdict)> {
    let waiting = Mutex::new(tasks.iter());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next().filter(|_| !interrupt::is_requested())
    };
    let run = |task: &&'a Task<'a>| (*task, task.run());
    let work = || iter::from_fn(next).map(run).collect::<Vec<_>>();
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
        let tasks = [0, 1, 2, 3, 4].map(|number| {
            Task::new(number.to_string(), move || {
                assert!(number != 3, "three is broken");
                Verdict::Held
            })
        });
        let verdicts = run_all(&tasks.each_ref(), 2);
        assert_eq!(verdicts.len(), 5);
        for (Task { name, .. }, verdict) in verdicts {
            assert_eq!(verdict == Verdict::Inconclusive, name == "3", "{name}");
        }
    }
}
