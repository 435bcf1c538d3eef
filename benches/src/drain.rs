//! Drains that check that every job ran.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::worker::WorkerStats;
use redrive::{Backoff, Failure, Job, NewJob, Payload, Queue, Worker, WorkerBuilder};

use crate::meter::Meter;
use crate::payload::KINDS;
use crate::{Bench, BenchPayload, Kind, Outcome, Usage, rate_of};

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
    /// The time from the start of the worker to the first handler.
    pub started_in: Duration,
    /// The resources used until the last job is settled.
    pub used: Usage,
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

    /// Checks that this many handlers ran.
    pub fn check(&self, runs: usize) -> Outcome {
        match self.count() {
            count if count == runs => Ok(()),
            count => Err(format!("{count} handlers ran instead of {runs}").into()),
        }
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
    if !jobs.is_multiple_of(KINDS.len() * IN_A_ROW) {
        return Err(format!("{jobs} jobs are not a multiple of a thousand").into());
    }
    for kind in KINDS.iter().cycle().take(jobs / IN_A_ROW) {
        let jobs = BenchPayload::many(IN_A_ROW)
            .iter()
            .map(|payload| Ok(NewJob::raw(kind, &serde_json::to_string(payload)?)?))
            .collect::<Outcome<Vec<_>>>()?;
        queue.enqueue_jobs(&jobs)?;
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

/// Registers a typed handler for each of the ten kinds. A job succeeds at this attempt and fails before.
pub fn handle_kinds(builder: WorkerBuilder, ran: &Ran, attempt: u32) -> WorkerBuilder {
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

/// Drains `jobs` jobs of ten kinds, each of which succeeds at this attempt.
pub fn drain(bench: &Bench, queue: &Queue, jobs: usize, attempts: u32) -> Outcome<Drained> {
    drain_with(bench, queue, jobs, attempts, |builder, ran| {
        handle_kinds(builder, ran, attempts)
    })
}

/// Drains `jobs` jobs of one kind, each of which succeeds at this attempt.
pub fn drain_one_kind(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    attempts: u32,
) -> Outcome<Drained> {
    drain_with(bench, queue, jobs, attempts, |builder, ran| {
        handle_at::<BenchPayload>(builder, ran, attempts)
    })
}

/// Drains `jobs` jobs with two slots and these handlers, after an analysis of the table and a checkpoint. Each job must
/// run this often. Retries have no delay.
pub fn drain_with(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    attempts: u32,
    handlers: impl FnOnce(WorkerBuilder, &Ran) -> WorkerBuilder,
) -> Outcome<Drained> {
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
    let ran = Ran::default();
    let builder = Worker::builder(queue).backoff(Backoff::fixed(Duration::ZERO));
    let meter = Meter::start(bench)?;
    let start = Instant::now();
    let worker = handlers(builder.slots(2), &ran).start()?;
    until_ended(&worker, jobs)?;
    let end = Instant::now();
    let used = meter.stop()?;
    worker.stop(Duration::from_secs(10))?;
    ran.check(jobs * attempts as usize)?;
    assert_empty(bench)?;
    let first = ran.began().ok_or("no handler ran")?;
    Ok(Drained {
        rate: rate_of(jobs, end.duration_since(first)),
        started_in: first.duration_since(start),
        used,
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
