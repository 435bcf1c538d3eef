//! Drain of mixed priorities.

use redrive::Queue;
use redrive_benches::{Bench, Measurement, Outcome, drain_one_kind, fill_with};

pub(crate) const WHAT: &str = "Drain of 200,000 no-op jobs of one kind with ten priorities, in no \
    order, compared with the same with one priority.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
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
    let name = "ten priorities, compared with one";
    bench.report(Measurement::compared(name, "jobs/s", &alike, &mixed))
}

fn once(bench: &Bench, jobs: usize, priority: fn(u64) -> i16) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "priorities")?;
    fill_with(&queue, jobs, |job, id| job.priority(priority(id)))?;
    Ok(drain_one_kind(bench, &queue, jobs, 1)?.rate)
}
