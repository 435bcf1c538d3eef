//! How soon a job starts, in an idle worker and in a half-loaded one.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use redrive::postgres::fallible_iterator::FallibleIterator as _;
use redrive::{Job, Queue, Worker};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Target, Waits};

pub(crate) const WHAT: &str = "From the answer of an enqueue to the start of its handler: idle, \
    one every 20 ms, compared with a listening connection that asks one thing; and at half of what \
    the slots can do.";

/// How long any step may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The reported percentiles.
const PARTS: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let each = bench.sized(500, 10);
    let rounds = bench.sized(4, 1);
    let (mut baselines, mut redrive) = (Waits::default(), Waits::default());
    for _ in 0..rounds {
        baselines.push(baseline(bench, each)?);
        redrive.push(idle(bench, each)?);
    }
    for (name, part) in PARTS {
        let (baseline, redrive) = (baselines.at(part), redrive.at(part));
        let row = Measurement::compared(format!("idle, {name}"), "ms", &baseline, &redrive);
        bench.report(match name {
            "p50" => row.target(Target::AtMost(0.6)),
            "p99" => row.target(Target::AtMost(1.2)),
            _ => row.note("of each round it is nearly the slowest"),
        })?;
    }
    // Two slots, 4 ms a job: 500 a second at most.
    for (load, every) in [("a quarter", 8_000), ("half", 4_000)] {
        let (jobs, every) = (bench.sized(2_000, 20), Duration::from_micros(every));
        let mut waits = Waits::default();
        for _ in 0..bench.sized(3, 1) {
            waits.push(steady(bench, jobs, every)?);
        }
        for (name, part) in PARTS {
            let name = format!("{load} of what two slots can do, {name}");
            bench.report(Measurement::new(name, "ms", &waits.at(part)))?;
        }
    }
    Ok(())
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    // The handler may start before the enqueuer has its answer.
    let late = to.saturating_duration_since(from).as_secs_f64();
    let early = from.saturating_duration_since(to).as_secs_f64();
    (late - early) * 1000.0
}

/// The baseline: an insert with NOTIFY, and a listening connection that then runs one query on
/// another connection.
fn baseline(bench: &Bench, count: usize) -> Outcome<Vec<f64>> {
    let mut writer = bench.client()?;
    writer.batch_execute(
        "CREATE TABLE IF NOT EXISTS notified (id bigserial PRIMARY KEY, payload jsonb NOT NULL)",
    )?;
    let insert =
        writer.prepare("WITH notified AS (INSERT INTO notified (payload) VALUES ($1::text::jsonb)) SELECT pg_notify('notified', '')")?;
    let (mut listener, mut asker) = (bench.client()?, bench.client()?);
    listener.batch_execute("LISTEN notified")?;
    let ask = asker.prepare("SELECT count(*) FROM (SELECT FROM notified LIMIT 1) one")?;
    let (begun, starts) = unbounded();
    let listening = thread::spawn(move || -> Outcome {
        for _ in 0..count {
            listener
                .notifications()
                .timeout_iter(TIMEOUT)
                .next()?
                .ok_or("no notification came")?;
            asker.query_one(&ask, &[])?;
            begun.send(Instant::now())?;
        }
        Ok(())
    });
    let payload = BenchPayload::new(1).json();
    let waits = paced(count, Duration::from_millis(20), &starts, || {
        writer.query_one(&insert, &[&payload])?;
        Ok(())
    })?;
    listening.join().map_err(|_| "the listener panicked")??;
    Ok(waits)
}

/// Enqueues each job after the previous one has started.
pub(crate) fn idle(bench: &Bench, count: usize) -> Outcome<Vec<f64>> {
    let queue = Queue::new(bench.db(), "idle")?;
    let (begun, starts) = unbounded();
    let worker = Worker::builder(&queue)
        .slots(1)
        .handle(move |_: &Job<BenchPayload>| {
            _ = begun.send(Instant::now());
            Ok(())
        })
        .start()?;
    // Open the connections and prepare the statements first.
    let enqueue = || {
        queue.enqueue(&BenchPayload::new(1))?;
        Ok(())
    };
    paced(20, Duration::from_millis(100), &starts, enqueue)?;
    let waits = paced(count, Duration::from_millis(20), &starts, enqueue)?;
    worker.stop(TIMEOUT)?;
    Ok(waits)
}

/// Enqueues at intervals, and measures the time from each answer to the start.
fn paced(
    count: usize,
    every: Duration,
    starts: &Receiver<Instant>,
    mut go: impl FnMut() -> Outcome,
) -> Outcome<Vec<f64>> {
    let mut waits = Vec::with_capacity(count);
    for _ in 0..count {
        let called = Instant::now();
        go()?;
        let answered = Instant::now();
        waits.push(milliseconds(answered, starts.recv_timeout(TIMEOUT)?));
        thread::sleep(every.saturating_sub(called.elapsed()));
    }
    Ok(waits)
}

/// Enqueues jobs of 4 ms for two slots at a fixed rate.
fn steady(bench: &Bench, count: usize, every: Duration) -> Outcome<Vec<f64>> {
    let queue = Queue::new(bench.db(), "steady")?;
    let (begun, starts) = unbounded();
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle(move |job: &Job<BenchPayload>| {
            _ = begun.send((job.payload().id, Instant::now()));
            thread::sleep(Duration::from_millis(4));
            Ok(())
        })
        .start()?;
    let mut answered = Vec::with_capacity(count);
    let mut next = Instant::now();
    for number in 0..count as u64 {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += every;
        queue.enqueue(&BenchPayload::new(number))?;
        answered.push(Instant::now());
    }
    let mut waits = Vec::with_capacity(count);
    for _ in 0..count {
        let (number, began) = starts.recv_timeout(TIMEOUT)?;
        let answered = answered
            .get(usize::try_from(number)?)
            .ok_or("an unknown job started")?;
        waits.push(milliseconds(*answered, began));
    }
    worker.stop(TIMEOUT)?;
    // Skip the first jobs: the worker is still starting.
    Ok(waits.split_off(count / 20))
}
