//! Claims from a queue with ten million other jobs.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use redrive::postgres::Client;
use redrive::worker::WorkerStats;
use redrive::{Queue, Worker};
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Ran, Samples, Target, Waits, fill_kinds,
    handle_kinds, insert_rows, rate_of, send_waits, until_ended,
};

pub(crate) const WHAT: &str = "With 10,000,000 delayed jobs in the queue, and then 10,000,000 \
    ready ones: the rate of 200,000 jobs, and the wait of a job that wakes an idle worker (of \
    another queue for ready jobs), compared with an empty queue.";

/// Writes the same rows as an enqueue, ten million in a minute.
const READY: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload)
    SELECT r.segment, 'backlog', 'kind-' || n % 10, jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM redrive.ring r, generate_series(1, $1::bigint) n";
const DELAYED: &str = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT clock_timestamp() + interval '1 hour' + random() * interval '1 day', 'backlog', 'kind-' || n % 10,
           jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM generate_series(1, $1::bigint) n";
/// How many waits are measured.
const WAITS: usize = 300;

/// The results with a backlog.
#[derive(Default)]
struct Measured {
    rates: Samples,
    waits: Waits,
}

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let backlog = bench.sized(10_000_000_i64, 20_000);
    let queue = Queue::new(bench.db(), "backlog")?;
    let mut client = bench.client()?;
    let empty = measured(bench, &queue, Ready::Few)?;
    write(&mut client, DELAYED, backlog)?;
    let delayed = measured(bench, &queue, Ready::Few)?;
    client.batch_execute("TRUNCATE redrive.jobs_delayed")?;
    write(&mut client, READY, backlog)?;
    let ready = measured(bench, &queue, Ready::Many)?;
    for (what, beside) in [("delayed", delayed), ("ready", ready)] {
        let name = format!("claimed and done, {backlog} {what}");
        let row = Measurement::compared(name, "jobs/s", &empty.rates, &beside.rates);
        bench.report(row.target(Target::RatioAtLeast(0.9)))?;
        for (name, part) in [
            (
                format!("before the enqueue to the handler, {backlog} {what}, p50"),
                0.5,
            ),
            (format!("the same, p99, {backlog} {what}"), 0.99),
        ] {
            let (empty, beside) = (empty.waits.at(part), beside.waits.at(part));
            bench.report(Measurement::compared(name, "ms", &empty, &beside))?;
        }
    }
    Ok(())
}

/// Where the jobs to drain come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Few,
    Many,
}

fn write(client: &mut Client, statement: &str, jobs: i64) -> Outcome {
    insert_rows(client, statement, jobs)?;
    client.batch_execute("VACUUM ANALYZE redrive.jobs, redrive.jobs_delayed")?;
    Ok(client.batch_execute("CHECKPOINT")?)
}

fn measured(bench: &Bench, queue: &Queue, ready: Ready) -> Outcome<Measured> {
    let jobs = bench.sized(200_000, 2_000);
    let mut all = Measured::default();
    for _ in 0..bench.sized(3, 1) {
        if ready == Ready::Few {
            fill_kinds(queue, jobs)?;
        }
        bench.execute("CHECKPOINT")?;
        all.rates.push(rate(queue, jobs)?);
        // With a backlog, a worker is never idle.
        let idle = match ready {
            Ready::Few => queue.clone(),
            Ready::Many => Queue::new(bench.db(), "idle")?,
        };
        all.waits.push(waits(&idle, bench.sized(WAITS, 20))?);
    }
    Ok(all)
}

/// Drains the first jobs of the backlog, and returns the jobs a second.
fn rate(queue: &Queue, jobs: usize) -> Outcome<f64> {
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(queue).slots(2), &ran, 1).start()?;
    until_ended(&worker, jobs)?;
    let start = ran.began().ok_or("no handler ran")?;
    let (done, took) = (worker.stats().done, start.elapsed());
    let counts: WorkerStats = worker.stop(Duration::from_secs(10))?.stats;
    ran.check(usize::try_from(counts.done)?)?;
    Ok(rate_of(usize::try_from(done)?, took))
}

/// Measures how long jobs wait for an idle worker, in milliseconds.
fn waits(queue: &Queue, times: usize) -> Outcome<Vec<f64>> {
    let start = Instant::now();
    let (waits, waited) = unbounded();
    let worker = Worker::builder(queue)
        .slots(1)
        .handle(send_waits(start, waits))
        .start()?;
    thread::sleep(Duration::from_secs(1));
    for _ in 0..times {
        let now = u64::try_from(start.elapsed().as_nanos())?;
        queue.enqueue(&BenchPayload::new(now))?;
        thread::sleep(Duration::from_millis(10));
    }
    until_ended(&worker, times)?;
    worker.stop(Duration::from_secs(10))?;
    Ok(waited.try_iter().collect())
}
