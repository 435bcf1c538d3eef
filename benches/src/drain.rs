//! Working off what is ready, with the proof that every job ran.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::Client;
use redrive::{Backoff, Counts, Failure, Job, Queue, Worker, WorkerBuilder};

use crate::{Bench, KINDS, Kind, Outcome, Parcel};

/// How long nothing may happen before a drain is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many jobs of one kind follow each other in [`fill_kinds`].
const IN_A_ROW: usize = 100;

/// How a drain went.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    /// Jobs a second, from the first handler's start until the last job was settled: as for the
    /// floor, connections are open and statements prepared by then.
    pub rate: f64,
    /// How long that took.
    pub took: Duration,
    /// How long it took from the start of the worker until the first handler ran.
    pub started_in: Duration,
}

/// Counts handlers, and knows when the first began.
#[derive(Clone, Debug, Default)]
pub struct Ran(Arc<(AtomicUsize, OnceLock<Instant>)>);

impl Ran {
    /// One more handler runs.
    pub fn one(&self) {
        if self.0.0.fetch_add(1, Ordering::Relaxed) == 0 {
            self.0.1.get_or_init(Instant::now);
        }
    }

    /// When the first began.
    pub fn began(&self) -> Option<Instant> {
        self.0.1.get().copied()
    }

    /// How many ran.
    pub fn count(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }
}

/// Writes jobs of one kind.
///
/// # Errors
/// redrive's.
pub fn fill(queue: &Queue, jobs: usize) -> Outcome {
    queue.enqueue_many(&Parcel::many(jobs))?;
    Ok(())
}

/// Writes jobs of ten kinds, a hundred of a kind in a row; `jobs` is a multiple of a thousand.
///
/// # Errors
/// redrive's.
pub fn fill_kinds(queue: &Queue, jobs: usize) -> Outcome {
    fn some<const N: usize>(queue: &Queue) -> Outcome {
        let parcels: Vec<Kind<N>> = Parcel::many(IN_A_ROW).into_iter().map(Kind).collect();
        queue.enqueue_many(&parcels)?;
        Ok(())
    }
    if !jobs.is_multiple_of(KINDS * IN_A_ROW) {
        return Err(format!("{jobs} jobs are no multiple of {}", KINDS * IN_A_ROW).into());
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

/// Registers a typed handler for each of the ten kinds.
pub fn handle_kinds(builder: WorkerBuilder, ran: &Ran) -> WorkerBuilder {
    fn one<const N: usize>(builder: WorkerBuilder, ran: &Ran) -> WorkerBuilder {
        let ran = ran.clone();
        builder.handle(move |_: &Job<Kind<N>>| -> Result<(), Failure> {
            ran.one();
            Ok(())
        })
    }
    [
        one::<0>, one::<1>, one::<2>, one::<3>, one::<4>, one::<5>, one::<6>, one::<7>, one::<8>,
        one::<9>,
    ]
    .into_iter()
    .fold(builder, |builder, register| register(builder, ran))
}

/// Drains a queue of `jobs` jobs of ten kinds with two slots and otherwise default settings.
///
/// # Errors
/// redrive's; when not exactly these jobs ran, or something is left.
pub fn drain(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Drained> {
    drain_with(bench, queue, jobs, jobs, |builder, ran| {
        handle_kinds(builder.slots(2), ran)
    })
}

/// Drains a queue of `jobs` jobs with this worker; `runs` is how many handlers must run for that.
/// Retries are due at once.
///
/// # Errors
/// redrive's; when not exactly so many ran, or something is left.
pub fn drain_with(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    runs: usize,
    worker: impl FnOnce(WorkerBuilder, &Ran) -> WorkerBuilder,
) -> Outcome<Drained> {
    let ran = Ran::default();
    let builder = Worker::builder(queue).backoff(Backoff::fixed(Duration::ZERO));
    let begin = Instant::now();
    let worker = worker(builder, &ran).start()?;
    until_ended(&worker, jobs)?;
    let end = Instant::now();
    worker.stop(Duration::from_secs(10))?;
    if ran.count() != runs {
        return Err(format!("{} handlers ran instead of {runs}", ran.count()).into());
    }
    assert_empty(&mut bench.client()?)?;
    let first = ran.began().ok_or("no handler ran")?;
    let took = end.duration_since(first);
    Ok(Drained {
        rate: rate_of(jobs, took),
        took,
        started_in: first.duration_since(begin),
    })
}

/// Waits until a worker has ended so many jobs, by its own count: to ask the server would cost it.
///
/// # Errors
/// When none ends for a long time.
pub fn until_ended(worker: &Worker, jobs: usize) -> Outcome {
    let ended = |counts: Counts| counts.done + counts.dead;
    let mut last = (0, Instant::now());
    loop {
        let now = ended(worker.counts());
        if now >= jobs as u64 {
            return Ok(());
        }
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > PATIENCE {
            return Err(
                format!("{now} jobs of {jobs} ended, and then none in {PATIENCE:?}").into(),
            );
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Nothing is ready, delayed or leased.
///
/// # Errors
/// When something is.
pub fn assert_empty(client: &mut Client) -> Outcome {
    for table in ["jobs", "jobs_delayed", "leases"] {
        let count = format!("SELECT count(*) FROM redrive.{table}");
        let left: i64 = client.query_one(&count, &[])?.get(0);
        if left > 0 {
            return Err(format!("{left} rows are left in redrive.{table}").into());
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate_of(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
