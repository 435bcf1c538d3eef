//! redrive and graphile-worker by turns, in the same run.

mod graphile;

use redrive::Queue;
use redrive_benches::{Bench, Measurement, Outcome, Target, Waits, drain, fill_kinds};

use self::graphile::Graphile;
use crate::{bulk, latency, single};

pub(crate) const WHAT: &str = "graphile-worker 0.18.0 on Node 22 as the baseline: two processes \
    with the configuration of its performance page, compared with one redrive worker of two slots \
    with default settings. On both sides, jobs have ten kinds, and each job is checked to have run \
    exactly once.";

/// How many jobs one call of the bulk enqueue stores.
const PER_CALL: usize = 10_000;

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let rival = Graphile::new(bench)?;
    drain_both(bench, &rival, 5, bench.sized(200_000, 2_000))?;
    if bench.sized(true, false) {
        drain_both(bench, &rival, 3, 1_000_000)?;
    }
    fail_once(bench, &rival)?;
    enqueue(bench, &rival)?;
    wake_up(bench, &rival)
}

fn drain_both(bench: &mut Bench, rival: &Graphile, rounds: usize, jobs: usize) -> Outcome {
    let (rivals, redrive) = bench.by_turns(
        rounds,
        || rival.drain(bench, jobs, 1),
        || once(bench, jobs, 1),
    )?;
    let name = format!("drain of {jobs} jobs");
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
        redrive.push(latency::idle(bench, jobs)?);
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
fn once(bench: &Bench, jobs: usize, attempts: u32) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "rivals")?;
    fill_kinds(&queue, jobs)?;
    Ok(drain(bench, &queue, jobs, attempts)?.rate)
}
