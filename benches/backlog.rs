//! Claims from a queue with ten million other jobs.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::worker::WorkerStats;
use redrive::{Failure, Job, Queue, Worker};
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Ran, Samples, Scenario, Target, fill_kinds,
    handle_kinds,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "backlog",
    what: "With 10,000,000 delayed jobs in the queue, and then 10,000,000 ready ones: the rate \
           of 200,000 jobs, and the wait of a job that wakes an idle worker (of another queue \
           for ready jobs), compared with an empty queue.",
    run,
};

/// Writes the same rows as an enqueue, ten million in a minute.
const READY: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload)
    SELECT r.segment, 'backlog', 'kind-' || n % 10, jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM redrive.ring r, generate_series(1, $1::bigint) n";
const DELAYED: &str = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT clock_timestamp() + interval '1 hour' + random() * interval '1 day', 'backlog', 'kind-' || n % 10,
           jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM generate_series(1, $1::bigint) n";
/// How many waits are measured.
const WAITS: u64 = 300;

/// The results with a backlog.
struct Measured {
    rates: Samples,
    p50: Samples,
    p99: Samples,
}

fn run(bench: &mut Bench) -> Outcome {
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
        bench.report(
            &Measurement::compared(
                format!("claimed and done, {backlog} {what}"),
                "jobs/s",
                &empty.rates,
                &beside.rates,
            )
            .target(Target::RatioAtLeast(0.9)),
        )?;
        bench.report(&Measurement::compared(
            format!("before the enqueue to the handler, {backlog} {what}, p50"),
            "ms",
            &empty.p50,
            &beside.p50,
        ))?;
        bench.report(&Measurement::compared(
            format!("the same, p99, {backlog} {what}"),
            "ms",
            &empty.p99,
            &beside.p99,
        ))?;
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
    let mut left = jobs;
    while left > 0 {
        let some = left.min(1_000_000);
        client.execute(statement, &[&some])?;
        left -= some;
    }
    client.batch_execute("VACUUM ANALYZE redrive.jobs, redrive.jobs_delayed")?;
    client.batch_execute("CHECKPOINT")?;
    Ok(())
}

fn measured(bench: &Bench, queue: &Queue, ready: Ready) -> Outcome<Measured> {
    let jobs = bench.sized(200_000, 2_000);
    let mut all = Measured {
        rates: Samples::new(),
        p50: Samples::new(),
        p99: Samples::new(),
    };
    for _ in 0..bench.sized(3, 1) {
        if ready == Ready::Few {
            fill_kinds(queue, jobs)?;
        }
        bench.client()?.batch_execute("CHECKPOINT")?;
        all.rates.push(rate(queue, jobs)?);
        // With a backlog, a worker is never idle.
        let idle = match ready {
            Ready::Few => queue.clone(),
            Ready::Many => Queue::new(bench.db(), "idle")?,
        };
        let waits = waits(&idle, bench.sized(WAITS, 20))?;
        all.p50.push(waits[waits.len() / 2]);
        all.p99.push(waits[waits.len() * 99 / 100]);
    }
    Ok(all)
}

/// Drains the first jobs of the backlog, and returns the jobs a second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(queue: &Queue, jobs: usize) -> Outcome<f64> {
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(queue).slots(2), &ran).start()?;
    let start = loop {
        if let Some(start) = ran.began() {
            break start;
        }
        thread::sleep(Duration::from_millis(1));
    };
    while worker.stats().done < jobs as u64 {
        if start.elapsed() > Duration::from_mins(2) {
            return Err(format!("{} of {jobs} jobs were done in 2 minutes", ran.count()).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let (done, took) = (worker.stats().done, start.elapsed());
    let counts: WorkerStats = worker.stop(Duration::from_secs(10))?.stats;
    match counts.done == ran.count() as u64 {
        true => Ok(done as f64 / took.as_secs_f64()),
        false => Err(format!("{} handlers ran, {} are done", ran.count(), counts.done).into()),
    }
}

/// Measures how long jobs wait for an idle worker: milliseconds, sorted.
fn waits(queue: &Queue, times: u64) -> Outcome<Vec<f64>> {
    let start = Instant::now();
    let waits: Arc<Mutex<Vec<f64>>> = Arc::default();
    let worker = Worker::builder(queue)
        .slots(1)
        .handle({
            let waits = Arc::clone(&waits);
            move |job: &Job<BenchPayload>| -> Result<(), Failure> {
                let wait = start
                    .elapsed()
                    .saturating_sub(Duration::from_nanos(job.payload().id));
                let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
                waits.push(wait.as_secs_f64() * 1e3);
                Ok(())
            }
        })
        .start()?;
    thread::sleep(Duration::from_secs(1));
    for _ in 0..times {
        let now = u64::try_from(start.elapsed().as_nanos())?;
        queue.enqueue(&BenchPayload::new(now))?;
        thread::sleep(Duration::from_millis(10));
    }
    let count = || waits.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let end = Instant::now() + Duration::from_mins(1);
    while count() < times {
        if Instant::now() > end {
            return Err(format!("{} of {times} jobs ran in a minute", count()).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    worker.stop(Duration::from_secs(10))?;
    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    waits.sort_by(f64::total_cmp);
    Ok(waits)
}
