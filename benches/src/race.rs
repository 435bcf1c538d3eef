//! Drains by workers that wait at a gate: all connections are open before the first job is claimed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redrive::{Act, Queue, Worker};

use crate::drain::{Ran, handle_kinds};
use crate::{Bench, Child, Outcome, assert_empty};

/// How long a drain may take in all.
const PATIENCE: Duration = Duration::from_mins(3);

/// A gate in front of a queue: a breaker, opened by hand.
#[derive(Debug)]
pub struct Gate<'a> {
    bench: &'a Bench,
    name: String,
}

impl<'a> Gate<'a> {
    /// Closes the gate: workers claim nothing of the queue, once they have heard of it.
    ///
    /// # Errors
    /// redrive's.
    pub fn shut(bench: &'a Bench, queue: &str) -> Outcome<Gate<'a>> {
        let name = format!("queue:{queue}");
        bench.db().open_breaker(&name, None, &Act::new())?;
        Ok(Gate { bench, name })
    }

    /// Opens it; workers are notified.
    ///
    /// # Errors
    /// redrive's.
    pub fn open(self) -> Outcome {
        self.bench.db().close_breaker(&self.name, &Act::new())?;
        Ok(())
    }
}

/// A process with a worker: started, told to stop, and asked how many handlers ran.
#[derive(Debug)]
struct Racer {
    process: std::process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// What [`race`] has other processes do; to be among the children of the program.
pub const RACER: Child = Child {
    name: "racer",
    run: racer,
};

/// Works on a queue until the standard input ends; says "ready", and at the end how many ran.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn racer(bench: &Bench, arguments: &[String]) -> Outcome {
    let [queue, slots] = arguments else {
        return Err("a racer needs a queue and its slots".into());
    };
    let queue = Queue::new(bench.db(), queue)?;
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(&queue), &ran)
        .slots(slots.parse()?)
        .start()?;
    println!("ready");
    // Whatever comes, and that nothing comes any more, means the end.
    std::io::stdin().read_line(&mut String::new())?;
    worker.stop(Duration::from_secs(10))?;
    println!("{}", ran.count());
    Ok(())
}

impl Racer {
    fn start(bench: &Bench, queue: &str, slots: usize) -> Outcome<Racer> {
        let mut process = bench
            .child(RACER.name, &[&queue, &slots])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take().ok_or("no standard input")?;
        let stdout = process.stdout.take().ok_or("no standard output")?;
        let mut racer = Racer {
            process,
            stdin,
            stdout: BufReader::new(stdout),
        };
        racer.line()?;
        Ok(racer)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.is_empty() {
            true => Err("a worker process ended before its time".into()),
            false => Ok(line.trim().to_owned()),
        }
    }

    /// Stops it; answers how many handlers ran.
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

/// Jobs a second that so many processes drain together, each with one worker of so many slots on
/// the same queue, from the opening of the gate until nothing is ready or leased. The queue holds
/// `jobs` jobs of [ten kinds](crate::Kind).
///
/// # Errors
/// redrive's; when not exactly these jobs ran.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn race(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    processes: usize,
    slots: usize,
) -> Outcome<f64> {
    let gate = Gate::shut(bench, queue.name())?;
    let racers = (0..processes)
        .map(|_| Racer::start(bench, queue.name(), slots))
        .collect::<Outcome<Vec<_>>>()?;
    // Their connections are open when they have looked at the chores once.
    thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    gate.open()?;
    until_drained(queue)?;
    let took = begin.elapsed();
    let ran = racers
        .into_iter()
        .map(Racer::stop)
        .sum::<Outcome<usize>>()?;
    if ran != jobs {
        return Err(format!("{ran} handlers ran instead of {jobs}").into());
    }
    assert_empty(&mut bench.client()?)?;
    Ok(jobs as f64 / took.as_secs_f64())
}

/// Waits until nothing of a queue is ready, delayed or leased.
///
/// # Errors
/// redrive's; when it takes too long.
pub fn until_drained(queue: &Queue) -> Outcome {
    let begin = Instant::now();
    while !queue.is_drained()? {
        if begin.elapsed() > PATIENCE {
            return Err(format!("queue `{}` is not drained in {PATIENCE:?}", queue.name()).into());
        }
        // Each look walks over what is dead and not yet removed.
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
