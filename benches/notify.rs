//! The cost of NOTIFY for enqueues.

use std::thread;
use std::time::Duration;

use redrive::{Job, Queue, Worker};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Samples, Scenario, Target, rate};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "notify",
    what: "Enqueue of single jobs from 16 threads with a worker that drains them, compared with the same \
           with NOTIFY switched off.",
    run,
};

const THREADS: usize = 16;

/// Whether enqueues notify: as the worker decides, never, or always.
const ASKED: &str = "DROP TRIGGER IF EXISTS bench ON redrive.workers";
const NEVER: &str = "CREATE OR REPLACE FUNCTION public.bench() RETURNS trigger LANGUAGE plpgsql \
        AS 'BEGIN NEW.waiting := false; RETURN NEW; END'; \
    CREATE OR REPLACE TRIGGER bench BEFORE INSERT OR UPDATE ON redrive.workers \
        FOR EACH ROW EXECUTE FUNCTION public.bench()";
const ALWAYS: &str = "CREATE OR REPLACE FUNCTION public.bench() RETURNS trigger LANGUAGE plpgsql \
        AS 'BEGIN NEW.waiting := true; RETURN NEW; END'; \
    CREATE OR REPLACE TRIGGER bench BEFORE INSERT OR UPDATE ON redrive.workers \
        FOR EACH ROW EXECUTE FUNCTION public.bench()";

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(24_000, 320);
    let db = redrive::Database::builder(bench.url())
        .connections(u32::try_from(THREADS)?)
        .open()?;
    let queue = Queue::new(&db, "notify")?;
    let (mut never, mut asked, mut always) = (Samples::new(), Samples::new(), Samples::new());
    for _ in 0..bench.sized(7, 1) {
        never.push(enqueue(bench, &queue, jobs, NEVER)?);
        asked.push(enqueue(bench, &queue, jobs, ASKED)?);
        always.push(enqueue(bench, &queue, jobs, ALWAYS)?);
    }
    bench.report(
        &Measurement::compared("when the worker asks for it", "jobs/s", &never, &asked)
            .target(Target::RatioAtLeast(0.95)),
    )?;
    bench.report(&Measurement::compared(
        "at every enqueue",
        "jobs/s",
        &never,
        &always,
    ))
}

fn enqueue(bench: &Bench, queue: &Queue, jobs: usize, notify: &str) -> Outcome<f64> {
    bench.client()?.batch_execute(notify)?;
    let own = Queue::new(bench.db(), queue.name())?;
    let worker = Worker::builder(&own)
        .slots(2)
        .handle(|_: &Job<BenchPayload>| Ok(()))
        .start()?;
    let go = |jobs: usize| -> Outcome {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| -> Outcome {
                        for _ in 0..jobs / THREADS {
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
    // Open the connections, and let the worker become idle.
    go(10 * THREADS)?;
    thread::sleep(Duration::from_secs(1));
    let rate = rate(jobs, || go(jobs))?;
    while !own.is_drained()? {
        thread::sleep(Duration::from_millis(5));
    }
    worker.stop(Duration::from_secs(10))?;
    Ok(rate)
}
