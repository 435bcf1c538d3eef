//! Bulk enqueue beside COPY.

use redrive::Queue;
use redrive_benches::{Bench, Floor, FloorKeys, Outcome, Parcel, Row, Scenario, Target, rate};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "bulk",
    what: "Bulk enqueue of 200,000 jobs by one connection, beside COPY of the same rows.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let floor = Floor::new(bench, FloorKeys::Primary)?;
    for (name, by) in [
        ("enqueue_many, all at once", jobs),
        ("enqueue_many, 1,000 at a time", 1_000),
    ] {
        let (floors, ours) = bench.by_turns(5, || floor.copy(jobs), || enqueue(bench, jobs, by))?;
        let row = Row::beside(name, "jobs/s", &floors, &ours);
        bench.row(&match by == jobs {
            true => row.target(Target::RatioAtLeast(0.8)),
            false => row.note("each thousand is a commit of its own; COPY is one"),
        })?;
    }
    Ok(())
}

fn enqueue(bench: &Bench, jobs: usize, by: usize) -> Outcome<f64> {
    let mut client = bench.client()?;
    client.batch_execute("TRUNCATE redrive.jobs; CHECKPOINT")?;
    let queue = Queue::new(bench.db(), "bulk")?;
    let parcels = Parcel::many(jobs);
    let rate = rate(jobs, || {
        for parcels in parcels.chunks(by) {
            queue.enqueue_many(parcels)?;
        }
        Ok(())
    })?;
    let there: i64 = client
        .query_one("SELECT count(*) FROM redrive.jobs", &[])?
        .get(0);
    match there == i64::try_from(jobs)? {
        true => Ok(rate),
        false => Err(format!("{there} jobs are there instead of {jobs}").into()),
    }
}
