//! A hundred queues in one table.

use std::time::{Duration, Instant};

use redrive::limits::WORKER_CONNECTIONS;
use redrive::{Database, Queue, Worker};
use redrive_benches::{
    Bench, Measurement, Outcome, Ran, Samples, Scenario, assert_empty, fill_kinds, handle_kinds,
    in_threads, until_drained,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "queues",
    what: "200,000 no-op jobs of ten kinds in 100 queues, drained by 20 workers of one slot in one \
           process, which take five queues each one after the other, compared with the same number in one \
           queue by one worker of two slots; and one queue of a hundred that are full, compared with the \
           same queue alone.",
    run,
};

const WORKERS: usize = 20;

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 20_000);
    let count = bench.sized(100, 10);
    let most = u32::try_from(WORKERS + 1)? * WORKER_CONNECTIONS;
    let db = Database::builder(bench.url()).connections(most).open()?;
    let [mut single, mut all, mut alone, mut among] = [(); 4].map(|()| Samples::default());
    for _ in 0..bench.sized(3, 1) {
        let one = queues(&db, 1)?;
        filled(bench, &one, jobs)?;
        single.push(at_once(bench, &one, 2)?);
        filled(bench, &one, jobs / 4)?;
        alone.push(at_once(bench, &one, 2)?);
        let hundred = queues(&db, count)?;
        filled(bench, &hundred, jobs)?;
        // One more queue, whose jobs are the newest.
        filled(bench, &one, jobs / 4)?;
        among.push(at_once(bench, &one, 2)?);
        all.push(at_once(bench, &hundred, 1)?);
        assert_empty(bench)?;
    }
    let name = "100 queues by 20 workers, compared with one queue by one";
    bench.report(Measurement::compared(name, "jobs/s", &single, &all))?;
    let name = "one queue while 100 others are full, compared with alone";
    bench.report(Measurement::compared(name, "jobs/s", &alone, &among))
}

fn queues(db: &Database, count: usize) -> Outcome<Vec<Queue>> {
    (0..count)
        .map(|number| Ok(Queue::new(db, &format!("queue-{count}-{number}"))?))
        .collect()
}

fn filled(bench: &Bench, queues: &[Queue], jobs: usize) -> Outcome {
    for queue in queues {
        fill_kinds(queue, jobs / queues.len())?;
    }
    bench.execute("ANALYZE redrive.jobs; CHECKPOINT")
}

/// Drains all queues, and returns the jobs a second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn at_once(bench: &Bench, queues: &[Queue], slots: usize) -> Outcome<f64> {
    let jobs: i64 = {
        let names: Vec<&str> = queues.iter().map(Queue::name).collect();
        bench
            .client()?
            .query_one(
                "SELECT count(*) FROM redrive.jobs WHERE queue = ANY ($1)",
                &[&names],
            )?
            .get(0)
    };
    let ran = Ran::default();
    let start = Instant::now();
    // Each worker has a share of the queues.
    let shares = queues.chunks(queues.len().div_ceil(WORKERS));
    in_threads(shares, |share| one_after_the_other(share, slots, &ran))?;
    let took = start.elapsed();
    match i64::try_from(ran.count())? == jobs {
        true => Ok(jobs as f64 / took.as_secs_f64()),
        false => Err(format!("{} handlers ran instead of {jobs}", ran.count()).into()),
    }
}

fn one_after_the_other(queues: &[Queue], slots: usize, ran: &Ran) -> Outcome {
    for queue in queues {
        let worker = handle_kinds(Worker::builder(queue).slots(slots), ran).start()?;
        until_drained(queue)?;
        worker.stop(Duration::from_secs(10))?;
    }
    Ok(())
}
