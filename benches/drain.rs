//! Drain beside a bare DELETE.

use redrive::Queue;
use redrive_benches::{
    Bench, Floor, FloorKeys, Outcome, Row, Samples, Scenario, Target, drain, fill_kinds,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "drain",
    what: "Drain of 200,000 no-op jobs of ten typed kinds with two slots and default settings, \
           beside DELETE … RETURNING of 500 rows a statement.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let (mut one, mut two, mut ours, mut start) = (
        Samples::new(),
        Samples::new(),
        Samples::new(),
        Samples::new(),
    );
    for round in 0..bench.sized(5, 1) {
        let floor = Floor::new(bench, FloorKeys::Primary)?;
        let mut floors = || -> Outcome {
            one.push(floor.delete(jobs, 1)?);
            two.push(floor.delete(jobs, 2)?);
            Ok(())
        };
        if round % 2 == 0 {
            floors()?;
        }
        let drained = once(bench, jobs)?;
        ours.push(drained.rate);
        start.push(drained.started_in.as_secs_f64() * 1e3);
        if round % 2 == 1 {
            floors()?;
        }
    }
    bench.row(
        &Row::beside(
            "drain; the floor uses one connection",
            "jobs/s",
            &one,
            &ours,
        )
        .target(Target::RatioAtLeast(0.8)),
    )?;
    bench.row(&Row::beside(
        "drain; the floor uses two connections",
        "jobs/s",
        &two,
        &ours,
    ))?;
    bench.row(
        &Row::new("start of the worker to its first handler", "ms", &start)
            .note("not in the rates above: connections are opened and statements prepared"),
    )
}

fn once(bench: &Bench, jobs: usize) -> Outcome<redrive_benches::Drained> {
    let queue = Queue::new(bench.db(), "drain")?;
    fill_kinds(&queue, jobs)?;
    let mut client = bench.client()?;
    client.batch_execute("ANALYZE redrive.jobs")?;
    client.batch_execute("CHECKPOINT")?;
    drain(bench, &queue, jobs)
}
