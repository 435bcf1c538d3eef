//! redrive and graphile-worker by turns, in the same run.

mod graphile;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redrive::{Failure, Job, NewJob, Queue, WorkerBuilder};
use redrive_benches::{
    Bench, BenchPayload, KINDS, Kind, Measurement, Outcome, Ran, Scenario, Target, Waits,
    drain_with,
};

use self::graphile::Graphile;
use crate::{bulk, latency, single};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "rivals",
    what: "graphile-worker 0.18.0 on Node 22 as the baseline: two processes with the configuration of its \
           performance page, compared with one redrive worker of two slots with default settings. On both \
           sides, jobs have ten kinds, and each job is checked to have run exactly once.",
    run,
};

/// How many jobs one call of the bulk enqueue stores.
const PER_CALL: usize = 10_000;

fn run(bench: &mut Bench) -> Outcome {
    let rival = Graphile::new(bench)?;
    drain(bench, &rival, 5, bench.sized(200_000, 2_000))?;
    if bench.sized(true, false) {
        drain(bench, &rival, 3, 1_000_000)?;
    }
    fail_once(bench, &rival)?;
    enqueue(bench, &rival)?;
    wake_up(bench, &rival)
}

fn drain(bench: &mut Bench, rival: &Graphile, rounds: usize, jobs: usize) -> Outcome {
    let (rivals, redrive) = bench.by_turns(
        rounds,
        || rival.drain(bench, jobs, 1),
        || once(bench, jobs, 1),
    )?;
    let name = format!("drain of {} jobs", redrive_benches::shown(count(jobs)));
    let row = Measurement::compared(name, "jobs/s", &rivals, &redrive);
    bench.report(row.target(Target::RatioAtLeast(5.0)))
}

fn fail_once(bench: &mut Bench, rival: &Graphile) -> Outcome {
    let jobs = bench.sized(50_000, 1_000);
    let (rivals, redrive) =
        bench.by_turns(5, || rival.drain(bench, jobs, 2), || once(bench, jobs, 2))?;
    let row = Measurement::compared("fail once, then done", "jobs/s", &rivals, &redrive);
    let note = "without the time in which graphile-worker only waits for retries to be due";
    bench.report(row.target(Target::RatioAtLeast(14.0)).note(note))
}

fn enqueue(bench: &mut Bench, rival: &Graphile) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let (rivals, redrive) = bench.by_turns(
        5,
        || rival.bulk(bench, jobs, PER_CALL),
        || emptied(bench, bulk::enqueue(bench, jobs, PER_CALL)?),
    )?;
    let name = "bulk enqueue, 10,000 jobs a call";
    bench.report(Measurement::compared(name, "jobs/s", &rivals, &redrive))?;
    for (connections, jobs) in [(1, 3_000), (10, 20_000)] {
        let jobs = bench.sized(jobs, 320);
        let db = redrive::Database::builder(bench.url())
            .connections(u32::try_from(connections)?)
            .open()?;
        let (rivals, redrive) = bench.by_turns(
            5,
            || rival.single(bench, jobs, connections),
            || emptied(bench, single::enqueue(bench, &db, jobs, connections)?),
        )?;
        let name = format!("single enqueue, connections: {connections}");
        bench.report(Measurement::compared(name, "jobs/s", &rivals, &redrive))?;
    }
    Ok(())
}

fn wake_up(bench: &mut Bench, rival: &Graphile) -> Outcome {
    let jobs = bench.sized(500, 10);
    let (mut rivals, mut redrive) = (Waits::default(), Waits::default());
    for _ in 0..bench.sized(4, 1) {
        rivals.push(rival.wakeups(bench, jobs)?);
        redrive.push(latency::idle(bench, jobs)?.0);
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let (name, rivals) = (
            format!("wake-up of an idle worker, {name}"),
            rivals.at(part),
        );
        let row = Measurement::compared(name, "ms", &rivals, &redrive.at(part));
        bench.report(row.note("from the return of the enqueue to the start of the handler"))?;
    }
    Ok(())
}

/// Deletes the jobs that an enqueue has stored.
fn emptied(bench: &Bench, rate: f64) -> Outcome<f64> {
    bench.execute("TRUNCATE redrive.jobs")?;
    Ok(rate)
}

/// Drains jobs that succeed at attempt number `attempts`, and returns the jobs a second.
fn once(bench: &Bench, jobs: usize, attempts: usize) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "rivals")?;
    for from in (0..jobs).step_by(PER_CALL) {
        let ids = from..jobs.min(from + PER_CALL);
        let new: Vec<NewJob> = ids.map(new_job).collect::<redrive::Result<_>>()?;
        queue.enqueue_jobs(&new)?;
    }
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
    let seen: Vec<RanJobs> = (0..attempts).map(|_| RanJobs::new(jobs)).collect();
    let drained = drain_with(bench, &queue, jobs, jobs * attempts, |builder, ran| {
        handlers(builder.slots(2), ran, &seen)
    })?;
    match seen.iter().all(|seen| seen.count() == jobs) {
        true => Ok(drained.rate),
        false => Err("a job ran twice and another not at all".into()),
    }
}

/// Returns a job of the kind that its number selects: a hundred of each kind in turn.
fn new_job(id: usize) -> redrive::Result<NewJob> {
    fn of<const N: usize>(id: usize) -> redrive::Result<NewJob> {
        NewJob::new(&Kind::<N>(BenchPayload::new(id as u64)))
    }
    const OF: [fn(usize) -> redrive::Result<NewJob>; KINDS] = [
        of::<0>, of::<1>, of::<2>, of::<3>, of::<4>, of::<5>, of::<6>, of::<7>, of::<8>, of::<9>,
    ];
    OF[id / 100 % KINDS](id)
}

/// Registers a handler for each kind. A job fails in every attempt but the last.
fn handlers(builder: WorkerBuilder, ran: &Ran, seen: &[RanJobs]) -> WorkerBuilder {
    fn one<const N: usize>(builder: WorkerBuilder, ran: &Ran, seen: &[RanJobs]) -> WorkerBuilder {
        let (ran, seen) = (ran.clone(), seen.to_vec());
        builder.handle(move |job: &Job<Kind<N>>| {
            ran.one();
            let attempt = job.attempt() as usize;
            if let Some(seen) = seen.get(attempt.saturating_sub(1)) {
                seen.mark(job.payload().0.id);
            }
            match attempt < seen.len() {
                true => Err(Failure::retry("not yet")),
                false => Ok(()),
            }
        })
    }
    [
        one::<0>, one::<1>, one::<2>, one::<3>, one::<4>, one::<5>, one::<6>, one::<7>, one::<8>,
        one::<9>,
    ]
    .into_iter()
    .fold(builder, |builder, register| register(builder, ran, seen))
}

/// The ids of the jobs that ran, as bits.
#[derive(Clone, Debug)]
struct RanJobs(Arc<Vec<AtomicU64>>);

impl RanJobs {
    fn new(jobs: usize) -> RanJobs {
        let words = (0..jobs.div_ceil(64)).map(|_| AtomicU64::new(0));
        RanJobs(Arc::new(words.collect()))
    }

    fn mark(&self, id: u64) {
        let word = usize::try_from(id / 64).ok().and_then(|at| self.0.get(at));
        if let Some(word) = word {
            word.fetch_or(1 << (id % 64), Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
        self.0.iter().map(ones).sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn count(number: usize) -> f64 {
    number as f64
}
