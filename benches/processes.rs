//! Several worker processes on one queue, compared with one.

use redrive::Queue;
use redrive_benches::{
    Bench, Measurement, Outcome, Samples, Target, drain_with_processes, fill_kinds,
};

pub(crate) const WHAT: &str = "Drain of 200,000 no-op jobs of ten kinds in one queue by 1, 2, 4 \
    and 8 worker processes of two slots, compared with the best single one (of 2 or 8 slots); the \
    server's log is read for deadlocks.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let queue = Queue::new(bench.db(), "processes")?;
    // Skip the log of earlier scenarios.
    bench.server_log()?;
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
    let Some(log) = bench.server_log()? else {
        return Ok(());
    };
    let deadlocks = f64::from(u32::try_from(log.matches("deadlock").count())?);
    let row = Measurement::new("deadlocks in the server's log", "lines", deadlocks);
    bench.report(row.target(Target::AtMost(0.0)))
}
