//! Claims behind ten million jobs that the worker must leave, or as many dead rows.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use redrive::{Failure, HandlerOptions, Job, Operator, Queue, Worker};
use redrive_benches::{Bench, Kind, Measurement, Outcome, Samples, Target, insert_rows};

pub(crate) const WHAT: &str = "A job behind 10,000,000 ready jobs of a kind that its worker does \
    not handle, of a kind that a breaker holds back, and behind 10,000,000 dead rows that a \
    snapshot keeps: from the start of a new worker to the handler, and from the enqueue to the \
    handler of a worker that runs.";

/// Writes the same rows as an enqueue.
const AHEAD: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload)
    SELECT r.segment, 'unhandled', 'kind-0', json_build_object('id', n, 'pad', repeat('x', 100))
    FROM redrive.ring r, generate_series(1, $1::bigint) n";
/// A job of an unhandled kind keeps its segment, and the dead rows in it, from being truncated.
const STRAGGLER: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload)
    SELECT r.segment, 'unhandled', 'straggler', '{}' FROM redrive.ring r";
const ROUNDS: usize = 5;
/// The dependency of the first kind.
const GATEWAY: &str = "gateway";
/// The target in milliseconds.
const TARGET: f64 = 50.0;

/// The rows ahead of the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Unhandled,
    HeldBack,
    Dead,
}

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(10_000_000_i64, 300_000);
    let queue = Queue::new(bench.db(), "unhandled")?;
    let mut client = bench.client()?;
    client.batch_execute(STRAGGLER)?;
    insert_rows(&mut client, AHEAD, jobs)?;
    client.batch_execute("VACUUM ANALYZE redrive.jobs")?;
    measure(bench, &queue, jobs, Ahead::Unhandled)?;
    let operator = Operator::default();
    bench.db().admin().open_breaker(GATEWAY, None, &operator)?;
    measure(bench, &queue, jobs, Ahead::HeldBack)?;
    bench.db().admin().close_breaker(GATEWAY, &operator)?;
    let _held = bench.hold_snapshot()?;
    client.batch_execute("DELETE FROM redrive.jobs WHERE kind <> 'straggler'")?;
    measure(bench, &queue, jobs, Ahead::Dead)
}

fn measure(bench: &mut Bench, queue: &Queue, jobs: i64, ahead: Ahead) -> Outcome {
    let what = match ahead {
        Ahead::Unhandled => "unhandled jobs",
        Ahead::HeldBack => "jobs held back by a breaker",
        Ahead::Dead => "dead rows",
    };
    let job = Kind::<1>(redrive_benches::BenchPayload::new(1));
    queue.enqueue(&job)?;
    let (worker, ran) = work(queue, ahead)?;
    wait(&ran)?;
    let mut running = Samples::default();
    for _ in 0..ROUNDS * 4 {
        let start = Instant::now();
        queue.enqueue(&job)?;
        running.push(milliseconds(wait(&ran)? - start));
    }
    worker.stop(Duration::from_secs(10))?;
    let mut new = Samples::default();
    for _ in 0..ROUNDS {
        queue.enqueue(&job)?;
        let start = Instant::now();
        let (worker, ran) = work(queue, ahead)?;
        new.push(milliseconds(wait(&ran)? - start));
        worker.stop(Duration::from_secs(10))?;
    }
    for (name, times) in [
        ("start of a new worker to its handler", &new),
        ("before the enqueue to the handler", &running),
    ] {
        let row = Measurement::new(format!("{name}, {jobs} {what}"), "ms", times);
        bench.report(row.target(Target::AtMost(TARGET)))?;
    }
    Ok(())
}

/// Starts a worker that reports when its handler ran.
fn work(queue: &Queue, ahead: Ahead) -> Outcome<(Worker, Receiver<Instant>)> {
    let (sender, ran) = channel();
    let builder = Worker::builder(queue)
        .slots(1)
        .handle(report::<1>(sender.clone()));
    let builder = match ahead {
        Ahead::Unhandled => builder,
        Ahead::HeldBack | Ahead::Dead => builder
            .handle(report::<0>(sender))
            .options(HandlerOptions::new().dependency(GATEWAY)),
    };
    Ok((builder.start()?, ran))
}

fn report<const N: usize>(
    ran: Sender<Instant>,
) -> impl Fn(&Job<Kind<N>>) -> Result<(), Failure> + Send + Sync + 'static {
    move |_| {
        // The receiver is gone if the job ran too late.
        _ = ran.send(Instant::now());
        Ok(())
    }
}

fn wait(ran: &Receiver<Instant>) -> Outcome<Instant> {
    Ok(ran.recv_timeout(Duration::from_mins(2))?)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
