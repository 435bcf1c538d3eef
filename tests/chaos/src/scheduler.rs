//! Runs tasks in parallel, limited by their weight: runs wait more than they compute, but an
//! overloaded machine delays everything.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use crate::interrupt;

/// A named piece of work.
pub(crate) struct Task<'a, T> {
    pub(crate) name: String,
    /// Its load, where a scenario has 1.
    pub(crate) weight: usize,
    pub(crate) work: Box<dyn Fn() -> T + Send + 'a>,
}

impl<'a, T> Task<'a, T> {
    pub(crate) fn new(
        name: impl Into<String>,
        weight: usize,
        work: impl Fn() -> T + Send + 'a,
    ) -> Task<'a, T> {
        let (name, work) = (name.into(), Box::new(work));
        Task { name, weight, work }
    }
}

/// The result of a task.
#[derive(Debug)]
pub(crate) struct TaskReport<T> {
    pub(crate) name: String,
    /// The return value, or the message of a panic.
    pub(crate) result: Result<T, String>,
}

/// Runs all tasks in order, with at most `max_weight` at a time; a heavier task runs alone.
///
/// A panic ends only its own task. An interrupt starts no further tasks.
pub(crate) fn run_all<T: Send>(tasks: Vec<Task<'_, T>>, max_weight: usize) -> Vec<TaskReport<T>> {
    let (sender, finished) = mpsc::channel();
    let mut waiting: VecDeque<Task<'_, T>> = tasks.into();
    let (mut weight, mut running) = (0, 0);
    let mut reports = Vec::new();
    thread::scope(|scope| {
        loop {
            while let Some(next) = waiting.pop_front() {
                let has_room = running == 0 || weight + next.weight <= max_weight;
                if !has_room || interrupt::is_requested() {
                    waiting.push_front(next);
                    break;
                }
                (weight, running) = (weight + next.weight, running + 1);
                let sender = sender.clone();
                scope.spawn(move || {
                    let weight = next.weight;
                    // The receiver lives as long as the scope.
                    _ = sender.send((weight, run(next)));
                });
            }
            if running == 0 {
                return;
            }
            let Ok((ended, report)) = finished.recv() else {
                return;
            };
            (weight, running) = (weight - ended, running - 1);
            reports.push(report);
        }
    });
    reports
}

fn run<T>(Task { name, work, .. }: Task<'_, T>) -> TaskReport<T> {
    // Only the result leaves the task, so no state can be left inconsistent.
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic));
    if let Err(panic) = &result {
        println!("{name} panicked: {panic}");
    }
    TaskReport { name, result }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_ends_only_its_own_task() {
        let tasks = (0..7).map(|number: i32| {
            Task::new(number.to_string(), 1, move || {
                assert!(number != 3, "three is broken");
                number
            })
        });
        let reports = run_all(tasks.collect(), 2);
        assert_eq!(reports.len(), 7);
        for report in reports {
            let expected = match &*report.name {
                "3" => Err("three is broken".to_owned()),
                name => Ok(name.parse::<i32>().expect("a number")),
            };
            assert_eq!(report.result, expected);
        }
    }

    #[test]
    fn tasks_that_fit_run_together() {
        let barrier = Barrier::new(2);
        let barrier = &barrier;
        let task = |name| Task::new(name, 2, move || barrier.wait().is_leader());
        assert_eq!(run_all(vec![task("one"), task("other")], 4).len(), 2);
    }

    #[test]
    fn the_weight_of_running_tasks_has_a_limit() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (now, most) = (&now, &most);
        let tasks = [1, 3, 1, 9, 2, 2, 1].map(|weight| {
            Task::new(weight.to_string(), weight, move || {
                let running = now.fetch_add(weight, Ordering::SeqCst) + weight;
                most.fetch_max(running, Ordering::SeqCst);
                thread::yield_now();
                now.fetch_sub(weight, Ordering::SeqCst);
            })
        });
        assert_eq!(run_all(tasks.into(), 4).len(), 7);
        // The task with weight 9 ran alone.
        assert_eq!(most.load(Ordering::SeqCst), 9);
    }
}
