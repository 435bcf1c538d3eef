//! The cost of an idle worker, and how fast it starts.

use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::{Job, Queue, Worker};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Process, Samples, Target};

pub(crate) const WHAT: &str = "An idle worker in its own process, with a breaker, a policy, \
    retention and counters; and the time from the start of the process to the first job.";

/// The measured process.
pub(crate) const CHILD: redrive_benches::Child = redrive_benches::Child {
    name: "idle_worker",
    run: work,
};

/// Everything that a worker maintains. No job uses the dependency of the breaker.
const EVERYTHING: &str = "
    SELECT redrive.open_breaker('elsewhere', reason => 'a bench', person => 'bench');
    SELECT redrive.set_policy('nightly', '{\"queue\": \"idle\"}', '6 hours');
    SELECT redrive.set_retention(NULL, 'recovered', '30 days')";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let queue = Queue::new(bench.db(), "idle")?;
    let mut client = bench.client()?;
    let mut starts = Samples::default();
    let mut worker = None;
    for _ in 0..bench.sized(10, 1) {
        drop(worker.take());
        queue.enqueue(&BenchPayload::new(1))?;
        let start = Instant::now();
        let mut child = self::start(bench)?;
        // A handler has begun.
        child.line()?;
        starts.push(start.elapsed().as_secs_f64() * 1000.0);
        worker = Some(child);
    }
    let row = Measurement::new("start of the process to the first handler", "ms", &starts);
    bench.report(row.target(Target::AtMost(50.0)))?;
    let worker = worker.ok_or("no worker was started")?;
    client.batch_execute(EVERYTHING)?;
    // Wait until its counters are folded.
    thread::sleep(bench.sized(Duration::from_secs(15), Duration::from_secs(1)));
    let span = bench.sized(Duration::from_secs(100), Duration::from_secs(2));
    let before = IdleCost::of(&mut client, &worker)?;
    thread::sleep(span);
    let after = IdleCost::of(&mut client, &worker)?;
    let seconds = span.as_secs_f64();
    let a_second = |before: f64, after: f64| (after - before) / seconds;
    // One of them is this query.
    let transactions = a_second(before.transactions + 1.0, after.transactions);
    let processor = a_second(before.processor, after.processor) * 100.0;
    for row in [
        Measurement::new("connections", "", after.connections).target(Target::AtMost(3.0)),
        Measurement::new("transactions", "1/s", transactions).target(Target::AtMost(1.0)),
        Measurement::new("processor", "%", processor).target(Target::AtMost(0.1)),
        Measurement::new("resident memory", "MB", after.memory / 1024.0),
        Measurement::new("threads", "", after.threads).note("two of them are slots"),
    ] {
        bench.report(row)?;
    }
    Ok(())
}

/// Starts the worker under a name that its sessions have.
fn start(bench: &Bench) -> Outcome<Process> {
    let separator = if bench.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}application_name={}", bench.url(), CHILD.name);
    Process::start(bench.child(CHILD.name, &[])?.env("DATABASE_URL", url))
}

/// The resources used so far.
struct IdleCost {
    connections: f64,
    transactions: f64,
    processor: f64,
    memory: f64,
    threads: f64,
}

impl IdleCost {
    fn of(client: &mut Client, worker: &Process) -> Outcome<IdleCost> {
        // Sessions of this process have another name. Sessions report statistics with a delay.
        let of_server = client.query_one(
            "SELECT (SELECT count(*) FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name = 'idle_worker')::float8, \
                    (SELECT xact_commit + xact_rollback FROM pg_stat_database \
                     WHERE datname = current_database())::float8",
            &[],
        )?;
        let process = format!("/proc/{}", worker.id());
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        let field = |name: &str| -> Outcome<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number =
                line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
            Ok(number.ok_or_else(|| format!("no `{name}`"))?.parse()?)
        };
        let mut nanoseconds = 0.0;
        for thread in std::fs::read_dir(format!("{process}/task"))? {
            let ran = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += ran.split(' ').next().unwrap_or("0").parse::<f64>()?;
        }
        Ok(IdleCost {
            connections: of_server.get(0),
            transactions: of_server.get(1),
            processor: nanoseconds / 1e9,
            memory: field("VmRSS")?,
            threads: field("Threads")?,
        })
    }
}

/// The child process: works until its input ends.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn work(bench: &Bench, _: &[String]) -> Outcome {
    let queue = Queue::new(bench.db(), "idle")?;
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle(|_: &Job<BenchPayload>| {
            println!("a handler began");
            Ok(())
        })
        .start()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    worker.stop(Duration::from_secs(5))?;
    Ok(())
}
