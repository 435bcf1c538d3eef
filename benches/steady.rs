//! A steady load with overlapping readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use redrive::{Queue, Worker};
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Target, Waits, assert_empty, send_waits,
    until_drained,
};

use crate::held::megabytes;

pub(crate) const WHAT: &str = "2,000 jobs a second for five minutes while three sessions hold \
    REPEATABLE READ snapshots of 60 s that overlap, so that the horizon is never free; compared \
    with one minute without.";

/// Jobs per batch, and batches a second.
const BATCH: u64 = 20;
const BATCHES: u32 = 100;

/// The results.
struct Seen {
    jobs_a_second: f64,
    waits: Waits,
    megabytes: Vec<f64>,
}

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let minute = bench.sized(Duration::from_mins(1), Duration::from_secs(1));
    let free = watch(bench, minute, None)?;
    let held = watch(bench, bench.sized(5, 2) * minute, Some(minute))?;
    let name = "done, with the readers compared with without";
    let (without, with) = (free.jobs_a_second.into(), held.jobs_a_second.into());
    let row = Measurement::compared(name, "jobs/s", &without, &with);
    bench.report(row.target(Target::RatioAtLeast(0.99)))?;
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let name = format!("from before the enqueue to the handler, {name}");
        let (free, held) = (free.waits.at(part), held.waits.at(part));
        bench.report(Measurement::compared(name, "ms", &free, &held))?;
    }
    // The size is bounded: the last third needs no more than the first two.
    let most = |megabytes: &[f64]| megabytes.iter().copied().fold(0.0, f64::max);
    let (early, late) = held.megabytes.split_at(held.megabytes.len() * 2 / 3);
    let name = "disk space of the schema: the last third compared with the first two";
    let row = Measurement::compared(name, "MB", &most(early).into(), &most(late).into());
    let note = format!("without readers at most {:.0} MB", most(&free.megabytes));
    bench.report(row.target(Target::RatioAtMost(1.1)).note(note))
}

/// Enqueues and works for a time, while readers hold snapshots of a given length.
#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
fn watch(bench: &Bench, lasting: Duration, reading: Option<Duration>) -> Outcome<Seen> {
    let queue = Queue::new(bench.db(), "steady")?;
    let start = Instant::now();
    let (waits, waited) = unbounded();
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle(send_waits(start, waits))
        .start()?;
    let over = AtomicBool::new(false);
    let (sent, sizes) = thread::scope(|scope| -> Outcome<(u64, Vec<f64>)> {
        let over = &over;
        let mut readers = Vec::new();
        for turn in 0..3 {
            if let Some(reading) = reading {
                readers.push(scope.spawn(move || read(bench, reading, turn, over)));
            }
        }
        let sizes = scope.spawn(|| -> Outcome<Vec<f64>> {
            let mut client = bench.client()?;
            let mut sizes = Vec::new();
            while !over.load(Ordering::Relaxed) {
                sizes.push(megabytes(&mut client)?);
                thread::sleep(Duration::from_millis(250));
            }
            Ok(sizes)
        });
        let sent = send(&queue, start, lasting);
        let drained = until_drained(&queue);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        drained?;
        Ok((sent?, sizes.join().map_err(|_| "a thread panicked")??))
    })?;
    let took = start.elapsed();
    worker.stop(Duration::from_secs(10))?;
    assert_empty(bench)?;
    let waits: Vec<f64> = waited.try_iter().collect();
    if waits.len() as u64 != sent {
        return Err(format!("{} handlers ran instead of {sent}", waits.len()).into());
    }
    Ok(Seen {
        jobs_a_second: sent as f64 / took.as_secs_f64(),
        waits: waits.into(),
        megabytes: sizes,
    })
}

/// Enqueues a batch every 10 ms. Each job carries its time.
fn send(queue: &Queue, start: Instant, lasting: Duration) -> Outcome<u64> {
    let every = Duration::from_secs(1) / BATCHES;
    let mut batches = 0;
    while start.elapsed() < lasting {
        let now = u64::try_from(start.elapsed().as_nanos())?;
        let payloads: Vec<BenchPayload> = (0..BATCH).map(|_| BenchPayload::new(now)).collect();
        queue.enqueue_many(&payloads)?;
        batches += 1;
        thread::sleep((every * batches).saturating_sub(start.elapsed()));
    }
    Ok(u64::from(batches) * BATCH)
}

/// Holds one snapshot after another. The reader starts late by `turn` thirds of its length.
fn read(bench: &Bench, lasting: Duration, turn: u32, over: &AtomicBool) -> Outcome {
    let mut until = Instant::now() + lasting * turn / 3;
    let rest = |until: Instant| {
        while Instant::now() < until && !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
    };
    rest(until);
    while !over.load(Ordering::Relaxed) {
        let held = bench.hold_snapshot()?;
        until = Instant::now() + lasting;
        rest(until);
        drop(held);
    }
    Ok(())
}
