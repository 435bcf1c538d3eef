//! Several worker processes on one queue, compared with one.

use redrive::Queue;
use redrive_benches::{
    Bench, Measurement, Outcome, Samples, Scenario, Target, drain_with_processes, fill_kinds,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "processes",
    what: "Drain of 200,000 no-op jobs of ten kinds in one queue by 1, 2, 4 and 8 worker processes \
           of two slots, compared with the best single one (of 2 or 8 slots); the server's log is read \
           for deadlocks.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let queue = Queue::new(bench.db(), "processes")?;
    // Skip the log of earlier scenarios.
    bench.server_log()?;
    let mut best = Samples::new();
    let mut rates: Vec<(usize, Samples)> = [1, 2, 4, 8]
        .into_iter()
        .map(|processes| (processes, Samples::new()))
        .collect();
    for _ in 0..bench.sized(5, 1) {
        let round = |processes, slots| -> Outcome<f64> {
            fill_kinds(&queue, jobs)?;
            let mut client = bench.client()?;
            client.batch_execute("ANALYZE redrive.jobs")?;
            client.batch_execute("CHECKPOINT")?;
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
        let row = Measurement::compared(
            format!("{processes} processes of 2 slots, compared with the best single one"),
            "jobs/s",
            &best,
            samples,
        );
        bench.report(&match processes {
            8 => row.target(Target::RatioAtLeast(0.9)),
            _ => row,
        })?;
    }
    let log = bench.server_log()?;
    let Some(log) = log else {
        return Ok(());
    };
    let deadlocks = log.matches("deadlock").count();
    bench.report(
        &Measurement::new("deadlocks in the server's log", "lines", small(deadlocks))
            .target(Target::AtMost(0.0)),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn small(number: usize) -> f64 {
    number as f64
}
