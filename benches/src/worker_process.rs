//! Drains by worker processes that start on a paused queue, so that all connections are open before
//! the first claim.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redrive::{Operator, Queue, Worker};

use crate::drain::{Ran, handle_kinds};
use crate::{Bench, Child, Outcome, assert_empty};

/// How long a drain may take.
const TIMEOUT: Duration = Duration::from_mins(3);

/// A queue that is paused by its breaker.
#[derive(Debug)]
pub struct PausedQueue<'a> {
    bench: &'a Bench,
    name: String,
}

impl<'a> PausedQueue<'a> {
    /// Pauses the queue. Workers stop claiming when they see the breaker.
    ///
    /// # Errors
    ///
    /// Those of redrive.
    pub fn pause(bench: &'a Bench, queue: &str) -> Outcome<PausedQueue<'a>> {
        let name = format!("queue:{queue}");
        bench
            .db()
            .admin()
            .open_breaker(&name, None, &Operator::default())?;
        Ok(PausedQueue { bench, name })
    }

    /// Resumes the queue and notifies its workers.
    ///
    /// # Errors
    ///
    /// Those of redrive.
    pub fn resume(self) -> Outcome {
        self.bench
            .db()
            .admin()
            .close_breaker(&self.name, &Operator::default())?;
        Ok(())
    }
}

/// A child process with a worker.
#[derive(Debug)]
struct WorkerProcess {
    process: std::process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
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
    let worker = handle_kinds(Worker::builder(&queue), &ran)
        .slots(slots.parse()?)
        .start()?;
    println!("ready");
    // A line or the end of the input stops the worker.
    std::io::stdin().read_line(&mut String::new())?;
    worker.stop(Duration::from_secs(10))?;
    println!("{}", ran.count());
    Ok(())
}

impl WorkerProcess {
    fn start(bench: &Bench, queue: &str, slots: usize) -> Outcome<WorkerProcess> {
        let mut process = bench
            .child(WORKER_PROCESS.name, &[&queue, &slots])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take().ok_or("no standard input")?;
        let stdout = process.stdout.take().ok_or("no standard output")?;
        let mut worker_process = WorkerProcess {
            process,
            stdin,
            stdout: BufReader::new(stdout),
        };
        worker_process.line()?;
        Ok(worker_process)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.is_empty() {
            true => Err("a worker process ended early".into()),
            false => Ok(line.trim().to_owned()),
        }
    }

    /// Stops the process and returns how many handlers ran.
    fn stop(mut self) -> Outcome<usize> {
        self.stdin.write_all(b"\n")?;
        drop(self.stdin);
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let ran = line.trim().parse()?;
        let status = self.process.wait()?;
        match status.success() {
            true => Ok(ran),
            false => Err(format!("a worker process ended with {status}").into()),
        }
    }
}

/// Drains `jobs` jobs of [ten kinds](crate::Kind) with several processes, and returns the jobs a
/// second.
///
/// The clock runs from resuming the queue until no job is ready or leased.
///
/// # Errors
///
/// Those of redrive, and when a job is lost or runs twice.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn drain_with_processes(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    processes: usize,
    slots: usize,
) -> Outcome<f64> {
    let paused = PausedQueue::pause(bench, queue.name())?;
    let processes = (0..processes)
        .map(|_| WorkerProcess::start(bench, queue.name(), slots))
        .collect::<Outcome<Vec<_>>>()?;
    // Their connections are open after the first round of chores.
    thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    paused.resume()?;
    until_drained(queue)?;
    let took = start.elapsed();
    let ran = processes
        .into_iter()
        .map(WorkerProcess::stop)
        .sum::<Outcome<usize>>()?;
    if ran != jobs {
        return Err(format!("{ran} handlers ran instead of {jobs}").into());
    }
    assert_empty(&mut bench.client()?)?;
    Ok(jobs as f64 / took.as_secs_f64())
}

/// Waits until no job of a queue is ready, delayed or leased.
///
/// # Errors
///
/// Those of redrive, and after three minutes.
pub fn until_drained(queue: &Queue) -> Outcome {
    let start = Instant::now();
    while !queue.is_drained()? {
        if start.elapsed() > TIMEOUT {
            return Err(format!(
                "queue `{}` was not drained within {TIMEOUT:?}",
                queue.name()
            )
            .into());
        }
        // Each check scans dead rows, so check rarely.
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
