//! Drain of mixed priorities.

use redrive::{Job, NewJob, Queue};
use redrive_benches::{Bench, Outcome, Parcel, Row, Scenario, drain_with};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "priorities",
    what: "Drain of 200,000 no-op jobs of one kind with ten priorities, in no order, beside the \
           same with one priority.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let (alike, mixed) = bench.by_turns(
        5,
        || once(bench, jobs, |_| 0),
        // A multiplier that is prime to ten leaves no order.
        || {
            once(bench, jobs, |n| {
                i16::try_from(n * 7919 / 13 % 10).unwrap_or_default()
            })
        },
    )?;
    bench.row(&Row::beside(
        "ten priorities, beside one",
        "jobs/s",
        &alike,
        &mixed,
    ))
}

fn once(bench: &Bench, jobs: usize, priority: fn(u64) -> i16) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "priorities")?;
    for parcels in Parcel::many(jobs).chunks(10_000) {
        let new = parcels
            .iter()
            .map(|parcel| Ok(NewJob::new(parcel)?.priority(priority(parcel.id))))
            .collect::<Outcome<Vec<_>>>()?;
        queue.add_many(new)?;
    }
    let mut client = bench.client()?;
    client.batch_execute("ANALYZE redrive.jobs")?;
    client.batch_execute("CHECKPOINT")?;
    let drained = drain_with(bench, &queue, jobs, jobs, |builder, ran| {
        let ran = ran.clone();
        builder.slots(2).handle(move |_: &Job<Parcel>| {
            ran.one();
            Ok(())
        })
    })?;
    Ok(drained.rate)
}
