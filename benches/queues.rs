//! A hundred queues in one table.

use std::time::Duration;

use redrive::{Database, Queue, Workers};
use redrive_benches::{
    Bench, Measurement, Outcome, Ran, Samples, Target, assert_empty, fill_kinds, handle_kinds,
    rate_of, until_ended,
};

pub(crate) const WHAT: &str = "1,000,000 no-op jobs of ten kinds in 100 queues that share the two \
    slots of one worker, compared with the same number in one queue; and one queue of a hundred \
    that are full, compared with the same queue alone.";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(1_000_000, 20_000);
    let count = bench.sized(100, 10);
    let [mut single, mut all, mut alone, mut among] = [(); 4].map(|()| Samples::default());
    for _ in 0..bench.sized(5, 1) {
        let one = queues(bench.db(), 1)?;
        fill(&one, jobs)?;
        single.push(drained(bench, &one, jobs)?);
        fill(&one, jobs / 10)?;
        alone.push(drained(bench, &one, jobs / 10)?);
        let hundred = queues(bench.db(), count)?;
        fill(&hundred, jobs)?;
        // One more queue, whose jobs are the newest.
        fill(&one, jobs / 10)?;
        among.push(drained(bench, &one, jobs / 10)?);
        all.push(drained(bench, &hundred, jobs)?);
        assert_empty(bench)?;
    }
    let name = "100 queues, compared with one";
    bench.report(
        Measurement::compared(name, "jobs/s", &single, &all).target(Target::RatioAtLeast(0.9)),
    )?;
    let name = "one queue while 100 others are full, compared with alone";
    bench.report(Measurement::compared(name, "jobs/s", &alone, &among))
}

fn queues(db: &Database, count: usize) -> Outcome<Vec<Queue>> {
    (0..count)
        .map(|number| Ok(Queue::new(db, &format!("queue-{count}-{number}"))?))
        .collect()
}

fn fill(queues: &[Queue], jobs: usize) -> Outcome {
    for queue in queues {
        fill_kinds(queue, jobs / queues.len())?;
    }
    Ok(())
}

/// Drains the queues with one worker of two slots, and returns the jobs a second since the first handler.
fn drained(bench: &Bench, queues: &[Queue], jobs: usize) -> Outcome<f64> {
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")?;
    let ran = Ran::default();
    let mut workers = Workers::builder(bench.db()).pool(2);
    for queue in queues {
        workers = workers.queue_with(queue.name(), |it| handle_kinds(it.share(1), &ran, 1));
    }
    let worker = workers.start()?;
    until_ended(&worker, jobs)?;
    let took = ran.began().map_or(Duration::ZERO, |began| began.elapsed());
    worker.stop(Duration::from_secs(10))?;
    ran.check(jobs)?;
    Ok(rate_of(jobs, took))
}
