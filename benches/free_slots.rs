//! How long slots are free while jobs wait, which is the cost of claiming in batches.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, SystemTime};

use redrive::{Job, Payload, Queue, Worker};
use redrive_benches::{
    Bench, Measurement, Outcome, Process, Recorder, Samples, Scenario, until_drained,
};
use serde::{Deserialize, Serialize};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "free_slots",
    what: "Jobs of 1 ms, 100 ms and 10 s in any order over four processes of four slots: how long \
           slots are free while jobs that are ready, or claimed, wait.",
    run,
};

/// The worker process.
pub(crate) const CHILD: redrive_benches::Child = redrive_benches::Child {
    name: "waste_worker",
    run: work,
};

const PROCESSES: usize = 4;
const SLOTS: usize = 4;

/// The payload of a job that sleeps.
#[derive(Serialize, Deserialize)]
struct Sleep {
    milliseconds: u64,
}

impl Payload for Sleep {
    const KIND: &'static str = "nap";
}

fn run(bench: &mut Bench) -> Outcome {
    for (name, instant, middling, slow) in [
        ("1 ms and 10 s", 4_000, 0, 6),
        ("1 ms, 100 ms and 10 s", 2_000, 200, 6),
        ("1 ms and 100 ms", 4_000, 200, 0),
    ] {
        let mut jobs_ms = vec![1; bench.sized(instant, 100)];
        jobs_ms.extend(vec![100; bench.sized(middling, middling.min(10))]);
        jobs_ms.extend(vec![bench.sized(10_000, 1_000); slow]);
        let [mut shares, mut waits, mut spans] = [(); 3].map(|()| Samples::default());
        for round in 0..bench.sized(3, 1) {
            // In the same order in each run.
            fastrand::Rng::with_seed(round).shuffle(&mut jobs_ms);
            let (wasted, longest, span) = free_slots(bench, &jobs_ms)?;
            shares.push(wasted * 100.0);
            waits.push(longest * 1000.0);
            spans.push(span);
        }
        for (what, unit, numbers) in [
            ("free while jobs waited", "% of slots", &shares),
            ("longest free period", "ms", &waits),
            ("until the last start", "s", &spans),
        ] {
            bench.report(Measurement::new(format!("{name}: {what}"), unit, numbers))?;
        }
    }
    Ok(())
}

/// Returns the share of slot time that was free while jobs waited, the longest such period, and the
/// time from the enqueue to the last start, in seconds.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn free_slots(bench: &Bench, jobs_ms: &[u64]) -> Outcome<(f64, f64, f64)> {
    let queue = Queue::new(bench.db(), "waste")?;
    let children = (0..PROCESSES)
        .map(|_| Process::start(&mut bench.child(CHILD.name, &[])?))
        .collect::<Outcome<Vec<_>>>()?;
    // Short jobs first, so that the workers expect short jobs.
    thread::sleep(Duration::from_secs(1));
    let warm: Vec<Sleep> = (0..800).map(|_| Sleep { milliseconds: 1 }).collect();
    queue.enqueue_many(&warm)?;
    until_drained(&queue)?;
    let jobs: Vec<Sleep> = jobs_ms
        .iter()
        .map(|&milliseconds| Sleep { milliseconds })
        .collect();
    let ids = queue.enqueue_many(&jobs)?;
    let start = now();
    until_drained(&queue)?;
    let mut ran: HashMap<i64, (f64, f64)> = HashMap::new();
    for child in children {
        for line in child.end()? {
            let mut fields = line.split(' ');
            let mut field = || fields.next().ok_or("incomplete line");
            let (id, start, end) = (field()?.parse()?, field()?.parse()?, field()?.parse()?);
            ran.insert(id, (start, end));
        }
    }
    // The times at which a slot becomes busy or free.
    let mut events: Vec<(f64, i64)> = Vec::new();
    for id in &ids {
        let (start, end) = ran.get(&id.get()).ok_or("a job that did not run")?;
        events.extend([(*start, 1), (*end, -1)]);
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut waiting, mut busy, mut last) = (ids.len(), 0_i64, start);
    let (mut free_time, mut period, mut longest) = (0.0, 0.0, 0.0_f64);
    let slots = (PROCESSES * SLOTS) as f64;
    let mut span = 0.0;
    for (at, change) in events {
        let free = (slots - busy as f64).min(waiting as f64);
        let took = (at - last).max(0.0);
        free_time += free * took;
        period = if free > 0.0 { period + took } else { 0.0 };
        longest = longest.max(period);
        last = at;
        busy += change;
        if change > 0 {
            waiting -= 1;
            span = at - start;
        }
    }
    Ok((free_time / (slots * span), longest, span))
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// The child process: works until its input ends, and prints when each job ran.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn work(bench: &Bench, _: &[String]) -> Outcome {
    let queue = Queue::new(bench.db(), "waste")?;
    let ran = Recorder::default();
    let recorder = ran.clone();
    let worker = Worker::builder(&queue)
        .slots(SLOTS)
        .handle(move |job: &Job<Sleep>| {
            let start = now();
            thread::sleep(Duration::from_millis(job.payload().milliseconds));
            recorder.push((job.id().get(), start, now()));
            Ok(())
        })
        .start()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    worker.stop(Duration::from_secs(20))?;
    for (id, start, end) in ran.take() {
        println!("{id} {start:.6} {end:.6}");
    }
    Ok(())
}
