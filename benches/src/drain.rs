//! Drains that check that every job ran.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::worker::WorkerStats;
use redrive::{Backoff, Failure, Job, NewJob, Payload, Queue, Worker, WorkerBuilder};

use crate::{Bench, BenchPayload, KINDS, Kind, Meter, Outcome, Usage};

/// How long a drain may make no progress.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long a drain may take.
const DRAIN: Duration = Duration::from_mins(3);
/// How many jobs of one kind are adjacent in [`fill_kinds`].
const IN_A_ROW: usize = 100;

/// The result of a drain.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    /// Jobs a second, from the first handler until the last job is settled. As for the baseline,
    /// connections are open and statements prepared by then.
    pub rate: f64,
    /// The time for that.
    pub took: Duration,
    /// The time from the start of the worker to the first handler.
    pub started_in: Duration,
}

/// Counts handlers, and records when the first started.
#[derive(Clone, Debug, Default)]
pub struct Ran(Arc<(AtomicUsize, OnceLock<Instant>)>);

impl Ran {
    /// Counts a handler.
    pub fn one(&self) {
        if self.0.0.fetch_add(1, Ordering::Relaxed) == 0 {
            self.0.1.get_or_init(Instant::now);
        }
    }

    /// Returns when the first handler started.
    pub fn began(&self) -> Option<Instant> {
        self.0.1.get().copied()
    }

    /// Returns how many handlers ran.
    pub fn count(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }
}

/// Enqueues jobs of one kind.
pub fn fill(queue: &Queue, jobs: usize) -> Outcome {
    queue.enqueue_many(&BenchPayload::many(jobs))?;
    Ok(())
}

/// Enqueues jobs of one kind with options that depend on the number of the job.
pub fn fill_with(queue: &Queue, jobs: usize, options: impl Fn(NewJob, u64) -> NewJob) -> Outcome {
    for payloads in BenchPayload::many(jobs).chunks(10_000) {
        let new = payloads
            .iter()
            .map(|payload| Ok(options(NewJob::new(payload)?, payload.id)))
            .collect::<Outcome<Vec<_>>>()?;
        queue.enqueue_jobs(&new)?;
    }
    Ok(())
}

/// Enqueues jobs of ten kinds, a hundred of each in turn. `jobs` is a multiple of a thousand.
pub fn fill_kinds(queue: &Queue, jobs: usize) -> Outcome {
    fn some<const N: usize>(queue: &Queue) -> Outcome {
        let payloads: Vec<Kind<N>> = BenchPayload::many(IN_A_ROW).into_iter().map(Kind).collect();
        queue.enqueue_many(&payloads)?;
        Ok(())
    }
    if !jobs.is_multiple_of(KINDS * IN_A_ROW) {
        return Err(format!("{jobs} jobs are not a multiple of {}", KINDS * IN_A_ROW).into());
    }
    for _ in 0..jobs / (KINDS * IN_A_ROW) {
        for one in [
            some::<0>, some::<1>, some::<2>, some::<3>, some::<4>, some::<5>, some::<6>, some::<7>,
            some::<8>, some::<9>,
        ] {
            one(queue)?;
        }
    }
    Ok(())
}

/// Inserts rows, a million a statement. The statement gets their number.
pub fn insert_rows(client: &mut Client, statement: &str, rows: i64) -> Outcome {
    let mut left = rows;
    while left > 0 {
        let some = left.min(1_000_000);
        client.execute(statement, &[&some])?;
        left -= some;
    }
    Ok(())
}

/// Registers a typed handler for each of the ten kinds.
pub fn handle_kinds(builder: WorkerBuilder, ran: &Ran) -> WorkerBuilder {
    handle_kinds_at(builder, ran, 1)
}

/// The same, where a job succeeds at this attempt and fails before.
pub fn handle_kinds_at(builder: WorkerBuilder, ran: &Ran, attempt: u32) -> WorkerBuilder {
    [
        handle_at::<Kind<0>>,
        handle_at::<Kind<1>>,
        handle_at::<Kind<2>>,
        handle_at::<Kind<3>>,
        handle_at::<Kind<4>>,
        handle_at::<Kind<5>>,
        handle_at::<Kind<6>>,
        handle_at::<Kind<7>>,
        handle_at::<Kind<8>>,
        handle_at::<Kind<9>>,
    ]
    .into_iter()
    .fold(builder, |builder, register| register(builder, ran, attempt))
}

/// Registers a typed handler. A job succeeds at this attempt and fails before.
fn handle_at<P: Payload + 'static>(
    builder: WorkerBuilder,
    ran: &Ran,
    attempt: u32,
) -> WorkerBuilder {
    let ran = ran.clone();
    builder.handle(move |job: &Job<P>| -> Result<(), Failure> {
        ran.one();
        match job.attempt() < attempt {
            true => Err(Failure::retry("not yet")),
            false => Ok(()),
        }
    })
}

/// Drains `jobs` jobs of ten kinds with two slots and otherwise default settings.
pub fn drain(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Drained> {
    drain_with(bench, queue, jobs, jobs, |builder, ran| {
        handle_kinds(builder.slots(2), ran)
    })
}

/// Drains `jobs` jobs of one kind with two slots, after an analysis of the table and a checkpoint.
pub fn drain_one_kind(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Drained> {
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
    drain_with(bench, queue, jobs, jobs, |builder, ran| {
        handle_at::<BenchPayload>(builder.slots(2), ran, 1)
    })
}

/// Drains `jobs` jobs of one kind with two slots. Each fails at the first attempt.
pub fn drain_failing_once(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Drained> {
    drain_with(bench, queue, jobs, 2 * jobs, |builder, ran| {
        handle_at::<BenchPayload>(builder.slots(2), ran, 2)
    })
}

/// Drains `jobs` jobs with this worker. `runs` handlers must run. Retries have no delay.
pub fn drain_with(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    runs: usize,
    worker: impl FnOnce(WorkerBuilder, &Ran) -> WorkerBuilder,
) -> Outcome<Drained> {
    let ran = Ran::default();
    let builder = Worker::builder(queue).backoff(Backoff::fixed(Duration::ZERO));
    let start = Instant::now();
    let worker = worker(builder, &ran).start()?;
    until_ended(&worker, jobs)?;
    let end = Instant::now();
    worker.stop(Duration::from_secs(10))?;
    if ran.count() != runs {
        return Err(format!("{} handlers ran instead of {runs}", ran.count()).into());
    }
    assert_empty(bench)?;
    let first = ran.began().ok_or("no handler ran")?;
    let took = end.duration_since(first);
    Ok(Drained {
        rate: rate_of(jobs, took),
        took,
        started_in: first.duration_since(start),
    })
}

/// Waits until a worker has settled `jobs` jobs. It reads the worker's counters, because queries
/// would slow down the server.
pub fn until_ended(worker: &Worker, jobs: usize) -> Outcome {
    let ended = |counts: WorkerStats| counts.done + counts.dead;
    let mut last = (0, Instant::now());
    loop {
        let now = ended(worker.stats());
        if now >= jobs as u64 {
            return Ok(());
        }
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > TIMEOUT {
            return Err(format!("{now} of {jobs} jobs ended, then none for {TIMEOUT:?}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Drains `jobs` jobs of ten kinds as [`drain`] does, and returns the resources used until the last one is done.
pub fn drain_metered(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Usage> {
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
    let ran = Ran::default();
    let meter = Meter::start(bench)?;
    let worker = handle_kinds(Worker::builder(queue).slots(2), &ran).start()?;
    until_ended(&worker, jobs)?;
    let took = meter.stop()?;
    worker.stop(Duration::from_secs(10))?;
    assert_empty(bench)?;
    match ran.count() == jobs {
        true => Ok(took),
        false => Err(format!("{} handlers ran instead of {jobs}", ran.count()).into()),
    }
}

/// Waits until no job of a queue is ready, delayed or leased, for three minutes at most.
pub fn until_drained(queue: &Queue) -> Outcome {
    let start = Instant::now();
    while !queue.is_drained()? {
        if start.elapsed() > DRAIN {
            return Err(format!("queue `{}` was not drained", queue.name()).into());
        }
        // Each check scans dead rows, so check rarely.
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Checks that no job is ready, delayed or leased.
pub fn assert_empty(bench: &Bench) -> Outcome {
    for table in ["jobs", "jobs_delayed", "leases"] {
        bench.expect_rows(&format!("redrive.{table}"), 0)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate_of(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
