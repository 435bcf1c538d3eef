//! Single enqueues, compared with a bare insert.

use std::thread;

use redrive::Queue;
use redrive_benches::{
    Baseline, BaselineKeys, Bench, BenchPayload, Measurement, Outcome, Scenario, Target, rate,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "single",
    what: "Enqueue of single jobs, each its own commit, compared with a prepared INSERT … RETURNING id \
           from as many connections.",
    run,
};

fn run(bench: &mut Bench) -> Outcome {
    for (threads, jobs) in [(1, 3_000), (10, 20_000), (32, 20_000)] {
        let jobs = bench.sized(jobs, 320);
        let baseline = Baseline::new(bench, BaselineKeys::Primary)?;
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
        bench.report(&match threads {
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
    let mut client = bench.client()?;
    let each = jobs / threads;
    let all = each * threads;
    let go = |each: usize| -> Outcome {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| -> Outcome {
                        for _ in 0..each {
                            queue.enqueue(&BenchPayload::new(1))?;
                        }
                        Ok(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    };
    // Open the connections and prepare the statements.
    go(10)?;
    client.batch_execute("TRUNCATE redrive.jobs; CHECKPOINT")?;
    let rate = rate(all, || go(each))?;
    let there: i64 = client
        .query_one("SELECT count(*) FROM redrive.jobs", &[])?
        .get(0);
    match there == i64::try_from(all)? {
        true => Ok(rate),
        false => Err(format!("{there} jobs are there instead of {all}").into()),
    }
}
