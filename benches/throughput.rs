//! Bulk and single enqueue, drain, and drain with a failure each, beside what the bare server
//! does with the same rows: `DATABASE_URL=… cargo bench -p redrive-benches`.
//!
//! It needs an empty database of its own; it makes the schema and two tables of its own there.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(missing_docs, reason = "not a library")]

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redrive::postgres::{Client, NoTls};
use redrive::{Backoff, Database, Failure, Job, Queue, Worker};
use redrive_benches::{Parcel, rate};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const BULK: usize = 100_000;
const DRAIN: usize = 200_000;
const FAILING: usize = 50_000;
const SINGLE: usize = 5_000;
const SINGLE_THREADS: usize = 10;
const ROUNDS: usize = 3;

const FLOOR_TABLE: &str = "DROP TABLE IF EXISTS floor;
    CREATE TABLE floor (id bigserial PRIMARY KEY, queue text NOT NULL, payload jsonb NOT NULL)";
const FLOOR_CLAIM: &str = "DELETE FROM floor WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM floor ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)) RETURNING id, payload";

fn main() -> Outcome<()> {
    // `cargo test --benches` runs this too; then there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL to an empty database: this makes tables of its own there")?;
    let db = redrive::connect(&url)?;
    db.migrate()?;
    let mut client = Client::connect(&url, NoTls)?;
    client.batch_execute(FLOOR_TABLE)?;
    println!(
        "{:<34} {:>12} {:>12} {:>7}",
        "jobs a second, best of 3", "floor", "redrive", "ratio"
    );
    report(
        "bulk enqueue | COPY",
        || bulk_floor(&mut client),
        || bulk(&db),
    )?;
    report("drain | DELETE by 500", || drain_floor(&url), || drain(&db))?;
    report(
        "fail once | DELETE by 500",
        || drain_floor(&url),
        || fail_once(&db),
    )?;
    report(
        "single enqueue, 10 threads | INSERT",
        || single_floor(&url),
        || single(&db),
    )?;
    Ok(())
}

/// Measures both in turn and prints the best of each: noise only ever slows down.
fn report(
    what: &str,
    mut floor: impl FnMut() -> Outcome<f64>,
    mut ours: impl FnMut() -> Outcome<f64>,
) -> Outcome<()> {
    let (mut best_floor, mut best) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        best_floor = best_floor.max(floor()?);
        best = best.max(ours()?);
    }
    println!(
        "{what:<34} {best_floor:>12.0} {best:>12.0} {:>7.2}",
        best / best_floor
    );
    Ok(())
}

fn bulk_floor(client: &mut Client) -> Outcome<f64> {
    use std::io::Write as _;
    let rows: Vec<String> = Parcel::many(BULK)
        .iter()
        .map(|parcel| {
            format!(
                "q\t{{\"id\": {}, \"pad\": \"{}\"}}\n",
                parcel.id, parcel.pad
            )
        })
        .collect();
    client.batch_execute("TRUNCATE floor")?;
    rate(BULK, || {
        let mut writer = client.copy_in("COPY floor (queue, payload) FROM STDIN")?;
        for chunk in rows.chunks(500) {
            writer.write_all(chunk.concat().as_bytes())?;
        }
        writer.finish()?;
        Ok(())
    })
}

fn bulk(db: &Database) -> Outcome<f64> {
    let queue = emptied(db, "bulk")?;
    let parcels = Parcel::many(BULK);
    rate(BULK, || {
        queue.enqueue_many(&parcels)?;
        Ok(())
    })
}

fn drain_floor(url: &str) -> Outcome<f64> {
    let mut client = Client::connect(url, NoTls)?;
    bulk_floor(&mut client)?;
    client.batch_execute("ANALYZE floor; CHECKPOINT")?;
    let claim = client.prepare(FLOOR_CLAIM)?;
    rate(BULK, || {
        while !client.query(&claim, &[])?.is_empty() {}
        Ok(())
    })
}

fn drain(db: &Database) -> Outcome<f64> {
    let queue = filled(db, "drain", DRAIN)?;
    work(&queue, DRAIN, |_| Ok(()))
}

fn fail_once(db: &Database) -> Outcome<f64> {
    let queue = filled(db, "fail-once", FAILING)?;
    work(&queue, FAILING, |job| match job.attempt() {
        1 => Err(Failure::retry("not yet")),
        _ => Ok(()),
    })
}

/// Drains a queue; the clock runs from the start of the worker until the last job is settled.
fn work(
    queue: &Queue,
    jobs: usize,
    handler: fn(&Job<Parcel>) -> Result<(), Failure>,
) -> Outcome<f64> {
    let backoff = Backoff::fixed(Duration::ZERO);
    let worker = Worker::builder(queue)
        .slots(2)
        .backoff(backoff)
        .handle(handler)
        .start()?;
    let rate = rate(jobs, || {
        while worker.counts().done < jobs as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        Outcome::Ok(())
    })?;
    worker.stop(Duration::from_secs(5))?;
    Ok(rate)
}

fn single_floor(url: &str) -> Outcome<f64> {
    let parcel = Parcel {
        id: 1,
        pad: "x".repeat(100),
    };
    let payload = format!("{{\"id\": {}, \"pad\": \"{}\"}}", parcel.id, parcel.pad);
    in_threads(|left| {
        let mut client = Client::connect(url, NoTls)?;
        let insert = client.prepare(
            "INSERT INTO floor (queue, payload) VALUES ($1, $2::text::jsonb) RETURNING id",
        )?;
        while take(left) {
            client.query_one(&insert, &[&"q", &payload])?;
        }
        Ok(())
    })
}

fn single(db: &Database) -> Outcome<f64> {
    let queue = emptied(db, "single")?;
    in_threads(|left| {
        let parcel = Parcel {
            id: 1,
            pad: "x".repeat(100),
        };
        while take(left) {
            queue.enqueue(&parcel)?;
        }
        Ok(())
    })
}

fn in_threads(work: impl Fn(&AtomicUsize) -> Outcome<()> + Sync) -> Outcome<f64> {
    let left = AtomicUsize::new(SINGLE);
    rate(SINGLE, || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..SINGLE_THREADS)
                .map(|_| scope.spawn(|| work(&left)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    })
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

fn filled(db: &Database, name: &str, jobs: usize) -> Outcome<Queue> {
    let queue = emptied(db, name)?;
    for parcels in Parcel::many(jobs).chunks(BULK) {
        queue.enqueue_many(parcels)?;
    }
    Ok(queue)
}

/// A queue without jobs; what an earlier bench enqueued and nobody drained is worked off.
fn emptied(db: &Database, name: &str) -> Outcome<Queue> {
    let queue = Queue::new(db, name)?;
    if !queue.is_drained()? {
        let worker = Worker::builder(&queue)
            .slots(2)
            .handle(|_: &Job<Parcel>| Ok(()))
            .start()?;
        while !queue.is_drained()? {
            thread::sleep(Duration::from_millis(10));
        }
        worker.stop(Duration::from_secs(5))?;
    }
    Ok(queue)
}
