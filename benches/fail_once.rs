//! Drain of jobs that fail once.

use redrive::{Failure, Job, Queue};
use redrive_benches::{
    Bench, Floor, FloorKeys, Outcome, Parcel, Row, Scenario, Target, drain_with, fill,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fail_once",
    what: "Drain of 50,000 jobs that fail at the first attempt and succeed at the second, which \
           is due at once, beside DELETE … RETURNING of 500 rows a statement by one connection.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(50_000, 1_000);
    let floor = Floor::new(bench, FloorKeys::Primary)?;
    let (floors, ours) = bench.by_turns(5, || floor.delete(jobs, 1), || once(bench, jobs))?;
    bench.row(
        &Row::beside("fail once, then done", "jobs/s", &floors, &ours)
            .target(Target::RatioAtLeast(0.25)),
    )
}

fn once(bench: &Bench, jobs: usize) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "fail-once")?;
    fill(&queue, jobs)?;
    let mut client = bench.client()?;
    client.batch_execute("ANALYZE redrive.jobs")?;
    client.batch_execute("CHECKPOINT")?;
    let drained = drain_with(bench, &queue, jobs, 2 * jobs, |builder, ran| {
        let ran = ran.clone();
        builder.slots(2).handle(move |job: &Job<Parcel>| {
            ran.one();
            match job.attempt() {
                1 => Err(Failure::retry("not yet")),
                _ => Ok(()),
            }
        })
    })?;
    Ok(drained.rate)
}
