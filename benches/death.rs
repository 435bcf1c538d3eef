//! What a death costs beside a retry: jobs that die at once against jobs that fail once, are
//! retried and done: `DATABASE_URL=… cargo bench -p redrive-benches --bench death`.
//!
//! It needs an empty database of its own; it makes the schema there. The time of jobs that are
//! done at the first attempt is measured in the same run and taken off the retries, so that what
//! is left is the cost of the retry alone: its settle, its way through the queue, its claim.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(missing_docs, reason = "not a library")]

use std::error::Error;
use std::thread;
use std::time::Duration;

use redrive::{Backoff, Counts, Database, Failure, Job, Queue, Worker};
use redrive_benches::{Parcel, rate};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Handler = fn(&Job<Parcel>) -> Result<(), Failure>;

const JOBS: usize = 50_000;
const ROUNDS: usize = 3;

fn main() -> Outcome<()> {
    // `cargo test --benches` runs this too; then there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL to an empty database: this makes tables of its own there")?;
    let db = redrive::connect(&url)?;
    db.migrate()?;
    let done = best(&db, "done", |_| Ok(()))?;
    let retried = best(&db, "retried", |job| match job.attempt() {
        1 => Err(failure(job.payload(), "not yet")),
        _ => Ok(()),
    })?;
    println!("microseconds a job, best of {ROUNDS}");
    println!("{:<44} {done:>8.1}", "done");
    println!("{:<44} {retried:>8.1}", "failed once, retried, done");
    let retry = retried - done;
    println!("{:<44} {retry:>8.1}", "so a retry costs");
    for (what, handler) in [
        ("died, one failure", alike as Handler),
        ("died, ten failures", ten),
        ("died, one failure with a 3 KiB detail", detailed),
    ] {
        let died = best(&db, "died", handler)?;
        println!(
            "{what:<44} {died:>8.1}   so a death costs {:.1}: {:.2} x a retry",
            died - done,
            (died - done) / retry
        );
    }
    Ok(())
}

fn failure(parcel: &Parcel, what: &str) -> Failure {
    Failure::retry(format!(
        "{what}: parcel {} timed out after {} ms",
        parcel.id,
        parcel.id % 97
    ))
}

fn dead(failure: &Failure) -> Result<(), Failure> {
    Err(Failure::reject(failure.message()).class("Timeout"))
}

fn alike(job: &Job<Parcel>) -> Result<(), Failure> {
    dead(&failure(job.payload(), "gateway"))
}

fn ten(job: &Job<Parcel>) -> Result<(), Failure> {
    const WHERE: [&str; 10] = [
        "gateway", "depot", "truck", "van", "customs", "port", "ship", "plane", "door", "box",
    ];
    let place = usize::try_from(job.payload().id % 10)?;
    dead(&failure(job.payload(), WHERE[place]))
}

fn detailed(job: &Job<Parcel>) -> Result<(), Failure> {
    let frames = "  12: parcel::deliver::attempt at src/deliver.rs:118\n".repeat(60);
    let detail = format!("caused by: parcel {}\n{frames}", job.payload().id);
    Err(Failure::reject("broken").class("Broken").detail(detail))
}

/// The least microseconds a job of a few rounds: noise only ever slows down.
fn best(db: &Database, name: &str, handler: Handler) -> Outcome<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let queue = Queue::new(db, name)?;
        queue.enqueue_many(&Parcel::many(JOBS))?;
        least = least.min(1e6 / work(&queue, handler)?);
    }
    Ok(least)
}

/// Works a queue off; the clock runs from the start of the worker until the last job is settled.
fn work(queue: &Queue, handler: Handler) -> Outcome<f64> {
    let worker = Worker::builder(queue)
        .slots(2)
        .backoff(Backoff::fixed(Duration::ZERO))
        .handle(handler)
        .start()?;
    let ended = |counts: Counts| counts.done + counts.dead;
    let rate = rate(JOBS, || {
        while ended(worker.counts()) < JOBS as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        Outcome::Ok(())
    })?;
    worker.stop(Duration::from_secs(5))?;
    Ok(rate)
}
