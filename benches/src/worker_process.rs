//! Drains by worker processes that start on a paused queue, so that all connections are open before
//! the first claim.

use std::thread;
use std::time::{Duration, Instant};

use redrive::{Operator, Queue, Worker};

use crate::{
    Bench, Child, Outcome, Process, Ran, assert_empty, handle_kinds, rate_of, until_drained,
};

/// Pauses a queue by its breaker. Workers stop claiming when they see it.
pub fn pause(bench: &Bench, queue: &Queue) -> Outcome {
    let (admin, breaker) = (bench.db().admin(), format!("queue:{}", queue.name()));
    admin.open_breaker(&breaker, None, &Operator::default())?;
    Ok(())
}

/// Resumes a queue and notifies its workers.
pub fn resume(bench: &Bench, queue: &Queue) -> Outcome {
    let (admin, breaker) = (bench.db().admin(), format!("queue:{}", queue.name()));
    admin.close_breaker(&breaker, &Operator::default())?;
    Ok(())
}

/// The child process of [`drain_with_processes`].
pub const WORKER_PROCESS: Child = Child {
    name: "worker",
    run: worker_process,
};

/// Prints "ready", works until standard input ends, and prints how many handlers ran.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn worker_process(bench: &Bench, arguments: &[String]) -> Outcome {
    let [queue, slots] = arguments else {
        return Err("expected a queue and a number of slots".into());
    };
    let queue = Queue::new(bench.db(), queue)?;
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(&queue), &ran, 1)
        .slots(slots.parse()?)
        .start()?;
    println!("ready");
    // A line or the end of the input stops the worker.
    std::io::stdin().read_line(&mut String::new())?;
    worker.stop(Duration::from_secs(10))?;
    println!("{}", ran.count());
    Ok(())
}

/// Drains `jobs` jobs of [ten kinds](crate::Kind) with several processes, and returns the jobs a
/// second.
///
/// The clock runs from resuming the queue until no job is ready or leased.
pub fn drain_with_processes(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    processes: usize,
    slots: usize,
) -> Outcome<f64> {
    pause(bench, queue)?;
    let start = |_| {
        let mut process =
            Process::start(&mut bench.child(WORKER_PROCESS.name, &[&queue.name(), &slots])?)?;
        process.line()?;
        Ok(process)
    };
    let processes = (0..processes).map(start).collect::<Outcome<Vec<_>>>()?;
    // Their connections are open after the first round of chores.
    thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    resume(bench, queue)?;
    until_drained(queue)?;
    let took = start.elapsed();
    let ran = processes
        .into_iter()
        .map(|process| Ok(process.end()?.concat().parse::<usize>()?))
        .sum::<Outcome<usize>>()?;
    if ran != jobs {
        return Err(format!("{ran} handlers ran instead of {jobs}").into());
    }
    assert_empty(bench)?;
    Ok(rate_of(jobs, took))
}
