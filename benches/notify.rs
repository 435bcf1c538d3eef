//! The cost of NOTIFY for enqueues.

use std::thread;
use std::time::Duration;

use redrive::{Job, Queue, Worker};
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Samples, Target, in_threads, rate, until_drained,
};

pub(crate) const WHAT: &str = "Enqueue of single jobs from 16 threads with a worker that drains \
    them, compared with the same with NOTIFY switched off.";

const THREADS: usize = 16;

/// Whether enqueues notify: as the worker decides, or as the trigger says.
const ASKED: &str = "DROP TRIGGER IF EXISTS bench ON redrive.workers";

fn trigger(waits: bool) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION public.bench() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN NEW.waiting := {waits}; RETURN NEW; END';
         CREATE OR REPLACE TRIGGER bench BEFORE INSERT OR UPDATE ON redrive.workers
             FOR EACH ROW EXECUTE FUNCTION public.bench()"
    )
}

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(24_000, 320);
    let db = redrive::Database::builder(bench.url())
        .connections(u32::try_from(THREADS)?)
        .open()?;
    let queue = Queue::new(&db, "notify")?;
    let [mut never, mut asked, mut always] = [(); 3].map(|()| Samples::default());
    for _ in 0..bench.sized(7, 1) {
        never.push(enqueue(bench, &queue, jobs, &trigger(false))?);
        asked.push(enqueue(bench, &queue, jobs, ASKED)?);
        always.push(enqueue(bench, &queue, jobs, &trigger(true))?);
    }
    let row = Measurement::compared("when the worker asks for it", "jobs/s", &never, &asked);
    bench.report(row.target(Target::RatioAtLeast(0.95)))?;
    let name = "at every enqueue";
    bench.report(Measurement::compared(name, "jobs/s", &never, &always))
}

fn enqueue(bench: &Bench, queue: &Queue, jobs: usize, notify: &str) -> Outcome<f64> {
    bench.execute(notify)?;
    let own = Queue::new(bench.db(), queue.name())?;
    let worker = Worker::builder(&own)
        .slots(2)
        .handle(|_: &Job<BenchPayload>| Ok(()))
        .start()?;
    let go = |jobs: usize| {
        in_threads(0..THREADS, |_| {
            for _ in 0..jobs / THREADS {
                queue.enqueue(&BenchPayload::new(1))?;
            }
            Ok(())
        })
    };
    // Open the connections, and let the worker become idle.
    go(10 * THREADS)?;
    thread::sleep(Duration::from_secs(1));
    let rate = rate(jobs, || go(jobs))?;
    until_drained(&own)?;
    worker.stop(Duration::from_secs(10))?;
    Ok(rate)
}
