//! Single enqueues, compared with a bare insert.

use redrive::Queue;
use redrive_benches::{
    Baseline, Bench, BenchPayload, Measurement, Outcome, Target, in_threads, rate,
};

pub(crate) const WHAT: &str = "Enqueue of single jobs, each its own commit, compared with a \
    prepared INSERT … RETURNING id from as many connections.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    for (threads, jobs) in [(1, 3_000), (10, 20_000), (32, 20_000)] {
        let jobs = bench.sized(jobs, 320);
        let baseline = Baseline::new(bench)?;
        // One open connection per thread, as in the baseline.
        let db = redrive::Database::builder(bench.url())
            .connections(u32::try_from(threads)?)
            .open()?;
        let (baselines, redrive) = bench.by_turns(
            5,
            || baseline.insert(jobs, threads),
            || enqueue(bench, &db, jobs, threads),
        )?;
        let row =
            Measurement::compared(format!("{threads} threads"), "jobs/s", &baselines, &redrive);
        bench.report(match threads {
            10 => row.target(Target::RatioAtLeast(0.9)),
            _ => row,
        })?;
    }
    Ok(())
}

pub(crate) fn enqueue(
    bench: &Bench,
    db: &redrive::Database,
    jobs: usize,
    threads: usize,
) -> Outcome<f64> {
    let queue = Queue::new(db, "single")?;
    let each = jobs / threads;
    let all = each * threads;
    let go = |each: usize| {
        in_threads(0..threads, |_| {
            for _ in 0..each {
                queue.enqueue(&BenchPayload::new(1))?;
            }
            Ok(())
        })
    };
    // Open the connections and prepare the statements.
    go(10)?;
    bench.execute("TRUNCATE redrive.jobs; CHECKPOINT")?;
    let rate = rate(all, || go(each))?;
    bench.expect_rows("redrive.jobs", all)?;
    Ok(rate)
}
