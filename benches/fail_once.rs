//! Drain of jobs that fail once.

use redrive::Queue;
use redrive_benches::{Baseline, Bench, Measurement, Outcome, Target, drain_one_kind, fill};

pub(crate) const WHAT: &str = "Drain of 50,000 jobs that fail at the first attempt and succeed at \
    the second, which is due at once, compared with DELETE … RETURNING of 500 rows a statement by \
    one connection.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(50_000, 1_000);
    let baseline = Baseline::new(bench)?;
    let (baselines, redrive) =
        bench.by_turns(5, || baseline.delete(jobs, 1), || once(bench, jobs))?;
    let row = Measurement::compared("fail once, then done", "jobs/s", &baselines, &redrive);
    bench.report(row.target(Target::RatioAtLeast(0.25)))
}

fn once(bench: &Bench, jobs: usize) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "fail-once")?;
    fill(&queue, jobs)?;
    Ok(drain_one_kind(bench, &queue, jobs, 2)?.rate)
}
