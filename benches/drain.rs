//! Drain, compared with a bare DELETE.

use redrive::Queue;
use redrive_benches::{Baseline, Bench, Measurement, Outcome, Samples, Target, drain, fill_kinds};

pub(crate) const WHAT: &str = "Drain of 200,000 no-op jobs of ten typed kinds with two slots and \
    default settings, compared with DELETE … RETURNING of 500 rows a statement.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let baseline = Baseline::new(bench)?;
    let (mut two, mut start) = (Samples::default(), Samples::default());
    let (one, redrive) = bench.by_turns(
        5,
        || {
            two.push(baseline.delete(jobs, 2)?);
            baseline.delete(jobs, 1)
        },
        || {
            let drained = once(bench, jobs)?;
            start.push(drained.started_in.as_secs_f64() * 1e3);
            Ok(drained.rate)
        },
    )?;
    let row = |name, baseline| Measurement::compared(name, "jobs/s", baseline, &redrive);
    let of_one = row("drain; the baseline uses one connection", &one);
    bench.report(of_one.target(Target::RatioAtLeast(0.8)))?;
    bench.report(row("drain; the baseline uses two connections", &two))?;
    let start = Measurement::new("start of the worker to its first handler", "ms", &start);
    let note = "not part of the rates above; opens connections and prepares statements";
    bench.report(start.note(note))
}

fn once(bench: &Bench, jobs: usize) -> Outcome<redrive_benches::Drained> {
    let queue = Queue::new(bench.db(), "drain")?;
    fill_kinds(&queue, jobs)?;
    drain(bench, &queue, jobs, 1)
}
