//! Drain of mixed priorities.

use redrive::{Job, NewJob, Queue};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Scenario, drain_with};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "priorities",
    what: "Drain of 200,000 no-op jobs of one kind with ten priorities, in no order, compared with the \
           same with one priority.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let (alike, mixed) = bench.by_turns(
        5,
        || once(bench, jobs, |_| 0),
        // A multiplier coprime to ten shuffles the priorities.
        || {
            once(bench, jobs, |n| {
                i16::try_from(n * 7919 / 13 % 10).unwrap_or_default()
            })
        },
    )?;
    bench.report(&Measurement::compared(
        "ten priorities, compared with one",
        "jobs/s",
        &alike,
        &mixed,
    ))
}

fn once(bench: &Bench, jobs: usize, priority: fn(u64) -> i16) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "priorities")?;
    for payloads in BenchPayload::many(jobs).chunks(10_000) {
        let new = payloads
            .iter()
            .map(|payload| Ok(NewJob::new(payload)?.priority(priority(payload.id))))
            .collect::<Outcome<Vec<_>>>()?;
        queue.enqueue_jobs(&new)?;
    }
    let mut client = bench.client()?;
    client.batch_execute("ANALYZE redrive.jobs")?;
    client.batch_execute("CHECKPOINT")?;
    let drained = drain_with(bench, &queue, jobs, jobs, |builder, ran| {
        let ran = ran.clone();
        builder.slots(2).handle(move |_: &Job<BenchPayload>| {
            ran.one();
            Ok(())
        })
    })?;
    Ok(drained.rate)
}
