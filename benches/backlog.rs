//! Claims beside ten million jobs.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::{Counts, Failure, Job, Queue, Worker};
use redrive_benches::{
    Bench, Outcome, Parcel, Ran, Row, Samples, Scenario, Target, fill_kinds, handle_kinds,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "backlog",
    what: "With 10,000,000 delayed jobs in the queue, and then 10,000,000 ready ones: how fast \
           200,000 jobs are claimed and done, and how long one waits that an idle worker is woken \
           for (beside ready ones: of another queue), beside the same without them.",
    run,
};

/// The bare rows, as an enqueue writes them, but ten million in a minute.
const READY: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload)
    SELECT r.segment, 'backlog', 'kind-' || n % 10, jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM redrive.ring r, generate_series(1, $1::bigint) n";
const DELAYED: &str = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT clock_timestamp() + interval '1 hour' + random() * interval '1 day', 'backlog', 'kind-' || n % 10,
           jsonb_build_object('id', n, 'pad', repeat('x', 100))
    FROM generate_series(1, $1::bigint) n";
/// How often the wait of one job is measured.
const WAITS: u64 = 300;

/// What was measured beside a backlog.
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
        bench.row(
            &Row::beside(
                format!("claimed and done, {backlog} {what}"),
                "jobs/s",
                &empty.rates,
                &beside.rates,
            )
            .target(Target::RatioAtLeast(0.9)),
        )?;
        bench.row(&Row::beside(
            format!("before the enqueue to the handler, {backlog} {what}, p50"),
            "ms",
            &empty.p50,
            &beside.p50,
        ))?;
        bench.row(&Row::beside(
            format!("the same, p99, {backlog} {what}"),
            "ms",
            &empty.p99,
            &beside.p99,
        ))?;
    }
    Ok(())
}

/// Whether there are ready jobs enough, or some must be written to be done.
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
        // A worker of a queue with a backlog is never idle.
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

/// Jobs a second over the first of what is there.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(queue: &Queue, jobs: usize) -> Outcome<f64> {
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(queue).slots(2), &ran).start()?;
    let begin = loop {
        if let Some(begin) = ran.began() {
            break begin;
        }
        thread::sleep(Duration::from_millis(1));
    };
    while worker.counts().done < jobs as u64 {
        if begin.elapsed() > Duration::from_mins(2) {
            return Err(format!("{} jobs of {jobs} are done in 2 minutes", ran.count()).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let (done, took) = (worker.counts().done, begin.elapsed());
    let counts: Counts = worker.stop(Duration::from_secs(10))?.counts;
    match counts.done == ran.count() as u64 {
        true => Ok(done as f64 / took.as_secs_f64()),
        false => Err(format!("{} handlers ran, {} are done", ran.count(), counts.done).into()),
    }
}

/// How long jobs wait for an idle worker, in milliseconds, sorted.
fn waits(queue: &Queue, times: u64) -> Outcome<Vec<f64>> {
    let begin = Instant::now();
    let waits: Arc<Mutex<Vec<f64>>> = Arc::default();
    let worker = Worker::builder(queue)
        .slots(1)
        .handle({
            let waits = Arc::clone(&waits);
            move |job: &Job<Parcel>| -> Result<(), Failure> {
                let wait = begin
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
        let now = u64::try_from(begin.elapsed().as_nanos())?;
        queue.enqueue(&Parcel::new(now))?;
        thread::sleep(Duration::from_millis(10));
    }
    let count = || waits.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let end = Instant::now() + Duration::from_mins(1);
    while count() < times {
        if Instant::now() > end {
            return Err(format!("{} jobs of {times} ran in a minute", count()).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    worker.stop(Duration::from_secs(10))?;
    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    waits.sort_by(f64::total_cmp);
    Ok(waits)
}
