//! Redrive of 100,000 letters as fast as it goes, beside what the bare server does with the same
//! rows; and how long live jobs of the same queue wait meanwhile:
//! `DATABASE_URL=… cargo bench -p redrive-benches --bench redrive`.
//!
//! It needs an empty database of its own; it makes the schema and tables of its own there.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(missing_docs, reason = "not a library")]

use std::error::Error;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::{Client, NoTls};
use redrive::{
    Act, Database, Driven, Job, Letters, Queue, Rate, RedriveOptions, RunDriver, RunOptions, Worker,
};
use redrive_benches::{Parcel, rate};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LETTERS: usize = 100_000;
const ROUNDS: usize = 3;
/// How long live jobs are watched, and how many come a second.
const WATCH: Duration = Duration::from_secs(15);
const EVERY: Duration = Duration::from_millis(5);

const EMPTY: &str = "TRUNCATE redrive.dead_letters, redrive.jobs, redrive.jobs_delayed,
    redrive.leases, redrive.redrive_runs, redrive.run_letters, redrive.run_stretches,
    redrive.run_deltas,
    redrive.letter_deltas, redrive.groups, redrive.failure_hours, redrive.workers";
const DIE: &str = "INSERT INTO redrive.dead_letters
        (queue, kind, reason, error_class, error_message, payload, history, enqueued_at)
    SELECT 'parcels', 'parcel', 'rejected', 'gateway', 'timeout after ' || n || ' ms',
           jsonb_build_object('id', n, 'pad', repeat('x', 100)),
           jsonb_build_array(jsonb_build_object('attempt', 1, 'generation', 0,
               'outcome', 'rejected', 'run_ms', 12, 'ended_at', clock_timestamp(),
               'error_class', 'gateway', 'error_message', 'timeout after ' || n || ' ms',
               'worker', gen_random_uuid(), 'host', 'host-1', 'version', '1.4.2')),
           clock_timestamp()
    FROM generate_series(1, 100000) n";
/// The same rows in a table with a primary key and an index on the time of death; moving one is
/// an update of it and an insert into a table with one index.
const FLOOR: &str = "DROP TABLE IF EXISTS floor_letters, floor_jobs;
    CREATE TABLE floor_letters AS SELECT * FROM redrive.dead_letters;
    ALTER TABLE floor_letters ADD PRIMARY KEY (id);
    CREATE INDEX ON floor_letters (died_at, id);
    CREATE INDEX ON floor_letters (queue, died_at, id) WHERE state = 'open';
    CREATE TABLE floor_jobs (id bigint, queue text, payload jsonb, history jsonb,
        priority smallint, enqueued_at timestamptz);
    CREATE INDEX ON floor_jobs (queue, priority, id)";
const FLOOR_MOVE: &str = "WITH moved AS (
        UPDATE floor_letters l SET state = 'redriving', changed_at = clock_timestamp()
        WHERE l.id IN (SELECT o.id FROM floor_letters o WHERE o.queue = 'parcels' AND o.state = 'open'
                       ORDER BY o.died_at, o.id LIMIT 5000 FOR UPDATE SKIP LOCKED)
        RETURNING l.*)
    INSERT INTO floor_jobs SELECT id, queue, payload, history, priority, enqueued_at FROM moved";

fn main() -> Outcome<()> {
    // `cargo test --benches` runs this too; then there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL to an empty database: this empties the tables there")?;
    let db = redrive::connect(&url)?;
    db.migrate()?;
    let mut client = Client::connect(&url, NoTls)?;
    moved(&db, &mut client)?;
    waits(&db, &mut client)
}

fn moved(db: &Database, client: &mut Client) -> Outcome<()> {
    let (mut floor, mut run, mut direct) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        die(client)?;
        client.batch_execute(FLOOR)?;
        client.batch_execute("ANALYZE floor_letters; CHECKPOINT")?;
        floor = floor.max(rate(LETTERS, || -> Outcome<()> {
            while client.execute(FLOOR_MOVE, &[])? > 0 {}
            Ok(())
        })?);
        client.batch_execute("DROP TABLE floor_letters, floor_jobs; CHECKPOINT")?;
        let mut driver = start(db, Rate::Unthrottled, RedriveOptions::new())?;
        run = run.max(rate(LETTERS, || -> Outcome<()> {
            while driver.step()?.driven == Driven::Running {}
            Ok(())
        })?);
        die(client)?;
        direct = direct.max(rate(LETTERS, || -> Outcome<()> {
            db.redrive(&Letters::queue("parcels"), &Act::new())?;
            Ok(())
        })?);
    }
    println!("redrive of 100,000 letters, letters a second, best of {ROUNDS}");
    for (what, rate) in [
        ("floor: update and insert", floor),
        ("run, unthrottled", run),
        ("direct, by 500", direct),
    ] {
        println!("{what:<34} {rate:>12.0} {:>7.2}", rate / floor);
    }
    Ok(())
}

fn waits(db: &Database, client: &mut Client) -> Outcome<()> {
    println!("\nwait of 200 live jobs a second in the same queue, milliseconds");
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>9}",
        "meanwhile", "p50", "p99", "max", "redriven"
    );
    let hundred = Rate::PerSecond(NonZeroU32::MIN.saturating_add(99));
    let low = RedriveOptions::new().priority(-10);
    for (what, pace) in [
        ("nothing", None),
        (
            "a run at 100 a second",
            Some((hundred, RedriveOptions::new())),
        ),
        (
            "a run, unthrottled, priority -10",
            Some((Rate::Unthrottled, low)),
        ),
        (
            "a run, unthrottled",
            Some((Rate::Unthrottled, RedriveOptions::new())),
        ),
    ] {
        die(client)?;
        client.batch_execute("ANALYZE redrive.dead_letters; CHECKPOINT")?;
        let driver = pace
            .map(|(rate, letters)| start(db, rate, letters))
            .transpose()?;
        let (waits, sent) = watch(db, driver)?;
        let at = |part: usize| waits[(waits.len() * part / 1000).min(waits.len() - 1)];
        println!(
            "{what:<34} {:>8.1} {:>8.1} {:>8.1} {sent:>9}",
            at(500),
            at(990),
            at(1000)
        );
    }
    Ok(())
}

/// Live jobs come and are done, while a run is driven; answers how long they waited, sorted, and
/// how many letters went.
fn watch(db: &Database, driver: Option<RunDriver>) -> Outcome<(Vec<f64>, u64)> {
    let queue = Queue::new(db, "parcels")?;
    let origin = Instant::now();
    let waits: Arc<Mutex<Vec<f64>>> = Arc::default();
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle({
            let waits = Arc::clone(&waits);
            move |job: &Job<Parcel>| {
                // Redriven parcels have no time in them.
                if let Ok(sent) = job.payload().pad.parse::<f64>() {
                    let wait = origin.elapsed().as_secs_f64() - sent;
                    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
                    waits.push(wait * 1e3);
                }
                Ok(())
            }
        })
        .start()?;
    thread::sleep(Duration::from_secs(1));
    let driving = driver.map(|mut driver| {
        thread::spawn(move || -> redrive::Result<u64> {
            loop {
                let step = driver.step()?;
                if step.driven != Driven::Running || origin.elapsed() > WATCH {
                    return Ok(step.sent);
                }
                thread::sleep(step.wait);
            }
        })
    });
    let mut jobs = 0;
    while origin.elapsed() < WATCH {
        let pad = origin.elapsed().as_secs_f64().to_string();
        queue.enqueue(&Parcel { id: jobs, pad })?;
        jobs += 1;
        thread::sleep(
            EVERY.saturating_sub(
                origin
                    .elapsed()
                    .saturating_sub(EVERY * u32::try_from(jobs)?),
            ),
        );
    }
    let sent = match driving {
        Some(driving) => driving.join().map_err(|_| "a thread panicked")??,
        None => 0,
    };
    let all = || waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    while (all().len() as u64) < jobs {
        thread::sleep(Duration::from_millis(10));
    }
    worker.stop(Duration::from_secs(5))?;
    let mut waits = all();
    waits.sort_by(f64::total_cmp);
    Ok((waits, sent))
}

/// An empty schema and 100,000 letters.
fn die(client: &mut Client) -> Outcome<()> {
    client.batch_execute(EMPTY)?;
    client.batch_execute(DIE)?;
    // Apart: VACUUM does not run together with anything.
    client.batch_execute("VACUUM ANALYZE redrive.dead_letters")?;
    client.batch_execute("CHECKPOINT")?;
    Ok(())
}

fn start(db: &Database, rate: Rate, letters: RedriveOptions) -> Outcome<RunDriver> {
    let options = RunOptions::new().rate(rate).letters(letters);
    let started = db.start_run(&Letters::queue("parcels"), &options, &Act::new())?;
    Ok(started.ok_or("no letters")?.1)
}
