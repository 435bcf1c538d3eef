//! What the counters cost: drain and enqueue with them and without, by turns in one run:
//! `DATABASE_URL=… cargo bench -p redrive-benches --bench counters`.
//!
//! Without them means that `metric_ring` is empty: every statement joins its counts with that one
//! row, so nothing is counted and nothing written. The statements are planned and started as ever;
//! what that costs is left out, and found by running this in a tree without the counters.
//!
//! Beside jobs a second it prints processor time a job, of this process and of its connections on
//! the server (when that is on the same machine, with /proc): other work on the machine changes
//! the first and hardly the second.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(missing_docs, reason = "not a library")]

use std::collections::HashMap;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::{Client, NoTls};
use redrive::{Database, Job, Queue, Worker};
use redrive_benches::Parcel;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const DRAIN: usize = 100_000;
const SINGLE: usize = 5_000;
const ROUNDS: usize = 10;
/// The ticks a second in which /proc counts processor time, on every Linux there is.
const TICKS: f64 = 100.0;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Counting {
    On,
    Off,
}

/// What one round took, a job.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    processor: Duration,
}

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
    let has_counters: bool = client
        .query_one("SELECT to_regclass('redrive.metric_ring') IS NOT NULL", &[])?
        .get(0);
    let mut took: HashMap<(&str, Counting), Vec<Took>> = HashMap::new();
    for round in 0..ROUNDS {
        // By turns, and the first of a pair by turns as well.
        let pair = match round % 2 {
            0 => [Counting::On, Counting::Off],
            _ => [Counting::Off, Counting::On],
        };
        for counting in pair {
            if has_counters {
                switch(&mut client, counting)?;
            }
            for (what, jobs, work) in [
                (
                    "drain",
                    DRAIN,
                    drain as fn(&Database, &mut Meter) -> Outcome<()>,
                ),
                ("single enqueue", SINGLE, single),
                ("bulk enqueue", DRAIN, bulk),
            ] {
                let mut meter = Meter::new(&url)?;
                work(&db, &mut meter)?;
                took.entry((what, counting))
                    .or_default()
                    .push(meter.took(jobs));
                empty(&mut client)?;
            }
        }
    }
    println!(
        "{:<16} {:>14} {:>14} {:>8} {:>14} {:>14} {:>8}",
        "", "without, us", "with, us", "ratio", "CPU without", "CPU with", "ratio"
    );
    for what in ["drain", "single enqueue", "bulk enqueue"] {
        let of = |counting| took.get(&(what, counting)).map_or(&[][..], Vec::as_slice);
        let wall = |counting| median(of(counting).iter().map(|took| took.wall));
        let processor = |counting| median(of(counting).iter().map(|took| took.processor));
        println!(
            "{what:<16} {:>14.2} {:>14.2} {:>8.3} {:>14.2} {:>14.2} {:>8.3}",
            wall(Counting::Off),
            wall(Counting::On),
            wall(Counting::On) / wall(Counting::Off),
            processor(Counting::Off),
            processor(Counting::On),
            processor(Counting::On) / processor(Counting::Off),
        );
    }
    Ok(())
}

/// Counts from now on, or no longer.
fn switch(client: &mut Client, counting: Counting) -> Outcome<()> {
    client.batch_execute(match counting {
        Counting::On => {
            "INSERT INTO redrive.metric_ring (segment) VALUES (0) ON CONFLICT DO NOTHING"
        }
        Counting::Off => "DELETE FROM redrive.metric_ring",
    })?;
    Ok(())
}

/// Nothing is left of a round, on the disk and in the shared buffers.
fn empty(client: &mut Client) -> Outcome<()> {
    client.batch_execute("TRUNCATE redrive.jobs, redrive.leases; CHECKPOINT")?;
    Ok(())
}

fn filled(db: &Database, name: &str) -> Outcome<Queue> {
    let queue = Queue::new(db, name)?;
    queue.enqueue_many(&Parcel::many(DRAIN))?;
    Ok(queue)
}

fn drain(db: &Database, meter: &mut Meter) -> Outcome<()> {
    let queue = filled(db, "drain")?;
    meter.start()?;
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle(|_: &Job<Parcel>| Ok(()))
        .start()?;
    while worker.counts().done < DRAIN as u64 {
        thread::sleep(Duration::from_millis(1));
    }
    meter.stop()?;
    worker.stop(Duration::from_secs(5))?;
    Ok(())
}

fn single(db: &Database, meter: &mut Meter) -> Outcome<()> {
    let queue = Queue::new(db, "single")?;
    let parcels = Parcel::many(SINGLE);
    meter.start()?;
    for parcel in &parcels {
        queue.enqueue(parcel)?;
    }
    meter.stop()
}

fn bulk(db: &Database, meter: &mut Meter) -> Outcome<()> {
    meter.start()?;
    filled(db, "bulk")?;
    meter.stop()
}

/// Measures from its start to its stop.
struct Meter {
    server: Client,
    started: Instant,
    before: HashMap<i32, f64>,
    wall: Duration,
    seconds: f64,
}

impl Meter {
    fn new(url: &str) -> Outcome<Meter> {
        Ok(Meter {
            server: Client::connect(url, NoTls)?,
            started: Instant::now(),
            before: HashMap::new(),
            wall: Duration::ZERO,
            seconds: 0.0,
        })
    }

    fn start(&mut self) -> Outcome<()> {
        self.before = self.processes()?;
        self.started = Instant::now();
        Ok(())
    }

    fn stop(&mut self) -> Outcome<()> {
        self.wall = self.started.elapsed();
        let after = self.processes()?;
        let since = |(process, seconds): (&i32, &f64)| {
            seconds - self.before.get(process).copied().unwrap_or_default()
        };
        self.seconds = after.iter().map(since).sum();
        Ok(())
    }

    /// The processor time of this process and of the server's for its connections, in seconds.
    fn processes(&mut self) -> Outcome<HashMap<i32, f64>> {
        let asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                     AND backend_type = 'client backend'";
        let rows = self.server.query(asked, &[])?;
        let mut processes: HashMap<i32, f64> = HashMap::new();
        let own = i32::try_from(std::process::id())?;
        for process in rows.iter().map(|row| row.get(0)).chain([own]) {
            if let Some(seconds) = processor(process) {
                processes.insert(process, seconds);
            }
        }
        Ok(processes)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn took(&self, jobs: usize) -> Took {
        Took {
            wall: self.wall.div_f64(jobs as f64),
            processor: Duration::from_secs_f64((self.seconds / jobs as f64).max(0.0)),
        }
    }
}

/// User and system time of a process; `None` when it is gone, or this is no Linux.
fn processor(process: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name, which is in parentheses: the state is the first field.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11);
    let user: f64 = ticks.next()?.parse().ok()?;
    let system: f64 = ticks.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// The median, in microseconds.
fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e6).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
