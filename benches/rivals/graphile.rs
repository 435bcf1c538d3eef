//! graphile-worker, in processes of Node that run `driver.mjs`.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use redrive_benches::{Bench, Outcome, Process, rate_of};
use serde::Deserialize;
use serde_json::Value;

/// How many processes work. Each runs JavaScript on one thread.
const PROCESSES: usize = 2;
/// How long a drain may take.
const TIMEOUT: Duration = Duration::from_mins(5);
/// A bucket of the timeline in `driver.mjs`.
const BUCKET: Duration = Duration::from_millis(10);
/// A longer gap, in buckets, is a wait for retries to be due.
const MAX_GAP: usize = 20;

/// graphile-worker on the database of a scenario.
#[derive(Debug)]
pub(super) struct Graphile {
    node: PathBuf,
    driver: PathBuf,
    url: String,
}

/// The numbers that a process reports. Times are in milliseconds.
#[derive(Deserialize)]
struct Report {
    ran: usize,
    /// The start of the first handler; `None` if none started.
    first: Option<f64>,
    /// The return of the last statement that settled jobs.
    settled: f64,
    /// The buckets of the timeline in which a handler started or jobs were settled.
    busy: Vec<usize>,
}

impl Graphile {
    /// Creates its schema.
    pub(super) fn new(bench: &Bench) -> Outcome<Graphile> {
        let folder = |variable| {
            env::var_os(variable)
                .map(PathBuf::from)
                .ok_or("run this scenario with `cargo xtask bench rivals`, which installs it")
        };
        let graphile = Graphile {
            node: folder("REDRIVE_BENCH_NODE")?,
            driver: folder("REDRIVE_BENCH_RIVALS")?.join("driver.mjs"),
            url: bench.url().to_owned(),
        };
        graphile.run("migrate", &[])?;
        Ok(graphile)
    }

    /// Adds jobs to the empty table, `per_call` a call, on one connection. Returns the jobs a second.
    pub(super) fn bulk(&self, bench: &Bench, jobs: usize, per_call: usize) -> Outcome<f64> {
        empty(bench)?;
        let answer = self.run("bulk", &[jobs, per_call])?;
        check_stored(bench, jobs)?;
        Ok(rate_of(jobs, seconds(&answer)?))
    }

    /// Adds single jobs on several connections. Returns the jobs a second.
    pub(super) fn single(&self, bench: &Bench, jobs: usize, connections: usize) -> Outcome<f64> {
        let jobs = jobs / connections * connections;
        let answer = self.run("single", &[jobs, connections])?;
        check_stored(bench, jobs)?;
        empty(bench)?;
        Ok(rate_of(jobs, seconds(&answer)?))
    }

    /// Adds a job to an idle worker every 20 ms. Returns the milliseconds from the return of each
    /// call to the start of the handler.
    pub(super) fn wakeups(&self, bench: &Bench, jobs: usize) -> Outcome<Vec<f64>> {
        empty(bench)?;
        let mut answer = self.run("wakeup", &[jobs, 20])?;
        let waits: Vec<f64> = serde_json::from_value(answer["waits"].take())?;
        check_stored(bench, 0)?;
        match waits.len() == jobs {
            true => Ok(waits),
            false => Err(format!("{} handlers started instead of {jobs}", waits.len()).into()),
        }
    }

    /// Drains jobs that succeed at attempt number `attempts`. Returns the jobs a second.
    ///
    /// The clock runs from the first handler until the last job is settled. With several attempts,
    /// gaps of more than 0.2 seconds, in which no handler starts and no job is settled, do not count:
    /// the delay before the first retry is fixed at 2.7 seconds.
    pub(super) fn drain(&self, bench: &Bench, jobs: usize, attempts: usize) -> Outcome<f64> {
        self.bulk(bench, jobs, 10_000)?;
        bench.execute("ANALYZE graphile_worker._private_jobs; CHECKPOINT")?;
        let mut processes = (0..PROCESSES)
            .map(|_| self.start("work", &[attempts]))
            .collect::<Outcome<Vec<_>>>()?;
        let mut epoch = 0.0_f64;
        for process in &mut processes {
            epoch = epoch.max(number(&answer(process)?, "ready")?);
        }
        for process in &mut processes {
            process.tell(&format!("go {epoch}"))?;
        }
        until_ran(&mut processes, jobs * attempts)?;
        for process in &mut processes {
            process.tell("stop")?;
        }
        let reports = processes
            .into_iter()
            .map(|mut process| {
                let report = answer(&mut process)?;
                process.end()?;
                Ok(serde_json::from_value(report)?)
            })
            .collect::<Outcome<Vec<Report>>>()?;
        check_stored(bench, 0)?;
        Ok(rate_of(jobs, checked(&reports, jobs, attempts)?))
    }

    fn run(&self, command: &str, arguments: &[usize]) -> Outcome<Value> {
        let mut process = self.start(command, arguments)?;
        let answer = answer(&mut process)?;
        process.end()?;
        Ok(answer)
    }

    fn start(&self, command: &str, arguments: &[usize]) -> Outcome<Process> {
        let mut driver = Command::new(&self.node);
        driver
            .arg(&self.driver)
            .arg(command)
            .args(arguments.iter().map(ToString::to_string))
            .env("DATABASE_URL", &self.url)
            .env("NODE_ENV", "production")
            .env("NO_LOG_SUCCESS", "1");
        Process::start(&mut driver)
    }
}

fn answer(process: &mut Process) -> Outcome<Value> {
    Ok(serde_json::from_str(&process.line()?)?)
}

fn seconds(answer: &Value) -> Outcome<Duration> {
    Ok(Duration::try_from_secs_f64(number(answer, "seconds")?)?)
}

fn number(answer: &Value, name: &str) -> Outcome<f64> {
    let number = answer[name].as_f64();
    Ok(number.ok_or_else(|| format!("no `{name}` in {answer}"))?)
}

/// Waits until `runs` handlers have started.
fn until_ran(processes: &mut [Process], runs: usize) -> Outcome {
    let start = Instant::now();
    loop {
        let mut ran = 0;
        for process in &mut *processes {
            process.tell("count")?;
            ran += answer(process)?["ran"].as_u64().ok_or("no count")?;
        }
        if ran >= runs as u64 {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!("{ran} of {runs} handlers ran within {TIMEOUT:?}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that each job ran exactly once per attempt. Returns how long the drain took.
///
/// No job is left, so each ran at least this often, and the sum is that of as many runs.
fn checked(reports: &[Report], jobs: usize, attempts: usize) -> Outcome<Duration> {
    let ran: usize = reports.iter().map(|report| report.ran).sum();
    if ran != jobs * attempts {
        return Err(format!("{ran} handlers ran instead of {}", jobs * attempts).into());
    }
    if attempts > 1 {
        let busy: BTreeSet<usize> = reports.iter().flat_map(|one| &one.busy).copied().collect();
        return Ok(BUCKET * u32::try_from(without_gaps(&busy))?);
    }
    let first = reports.iter().filter_map(|report| report.first);
    let first = first.fold(f64::INFINITY, f64::min);
    let settled = reports.iter().map(|report| report.settled);
    let took = (settled.fold(0.0, f64::max) - first) / 1000.0;
    Ok(Duration::try_from_secs_f64(took)?)
}

/// Returns the number of buckets from the first to the last of these, without long gaps.
fn without_gaps(busy: &BTreeSet<usize>) -> usize {
    let steps = busy.iter().zip(busy.iter().skip(1));
    let lengths = steps.map(|(one, next)| match next - one {
        gap if gap > MAX_GAP => 1,
        step => step,
    });
    lengths.sum::<usize>() + 1
}

fn empty(bench: &Bench) -> Outcome {
    bench.execute("TRUNCATE graphile_worker._private_jobs; CHECKPOINT")
}

fn check_stored(bench: &Bench, jobs: usize) -> Outcome {
    bench.expect_rows("graphile_worker._private_jobs", jobs)
}
