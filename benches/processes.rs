//! Several worker processes on one queue, compared with one.

use redrive::Queue;
use redrive_benches::{
    Bench, Measurement, Outcome, Samples, Target, drain_with_processes, fill_kinds,
};

pub(crate) const WHAT: &str = "Drain of 200,000 no-op jobs of ten kinds in one queue by 1, 2, 4 \
    and 8 worker processes of two slots, compared with the best single one (of 2 or 8 slots); and \
    the deadlocks meanwhile.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let queue = Queue::new(bench.db(), "processes")?;
    let mut best = Samples::default();
    let mut rates: Vec<(usize, Samples)> = [1, 2, 4, 8]
        .into_iter()
        .map(|processes| (processes, Samples::default()))
        .collect();
    for _ in 0..bench.sized(5, 1) {
        let round = |processes, slots| -> Outcome<f64> {
            fill_kinds(&queue, jobs)?;
            bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
            drain_with_processes(bench, &queue, jobs, processes, slots)
        };
        let wide = round(1, 8)?;
        for (processes, samples) in &mut rates {
            samples.push(round(*processes, 2)?);
        }
        let narrow = rates.first().and_then(|(_, one)| one.last());
        best.push(wide.max(narrow.unwrap_or_default()));
    }
    for (processes, samples) in &rates {
        let name = format!("{processes} processes of 2 slots, compared with the best single one");
        let row = Measurement::compared(name, "jobs/s", &best, samples);
        bench.report(match processes {
            8 => row.target(Target::RatioAtLeast(0.9)),
            _ => row,
        })?;
    }
    let asked = "SELECT deadlocks::float8 FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks: f64 = bench.ask(asked)?;
    bench.report(Measurement::new("deadlocks", "", deadlocks).target(Target::AtMost(0.0)))
}
