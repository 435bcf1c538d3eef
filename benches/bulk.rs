//! Bulk enqueue, compared with COPY.

use redrive::Queue;
use redrive_benches::{Baseline, Bench, BenchPayload, Measurement, Outcome, Target, rate};

pub(crate) const WHAT: &str =
    "Bulk enqueue of 200,000 jobs by one connection, compared with COPY of the same rows.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let baseline = Baseline::new(bench)?;
    for (name, by) in [
        ("enqueue_many, all at once", jobs),
        ("enqueue_many, 1,000 at a time", 1_000),
    ] {
        let (baselines, redrive) =
            bench.by_turns(5, || baseline.copy(jobs), || enqueue(bench, jobs, by))?;
        let row = Measurement::compared(name, "jobs/s", &baselines, &redrive);
        bench.report(match by == jobs {
            true => row.target(Target::RatioAtLeast(0.8)),
            false => row.note("commits each thousand; COPY commits once"),
        })?;
    }
    Ok(())
}

pub(crate) fn enqueue(bench: &Bench, jobs: usize, by: usize) -> Outcome<f64> {
    bench.execute("TRUNCATE redrive.jobs; CHECKPOINT")?;
    let queue = Queue::new(bench.db(), "bulk")?;
    let payloads = BenchPayload::many(jobs);
    let rate = rate(jobs, || {
        for payloads in payloads.chunks(by) {
            queue.enqueue_many(payloads)?;
        }
        Ok(())
    })?;
    bench.expect_rows("redrive.jobs", jobs)?;
    Ok(rate)
}
