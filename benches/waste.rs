//! How long jobs wait although a slot is free: what claiming in batches costs.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use redrive::{Job, Payload, Queue, Worker};
use redrive_benches::{Bench, Outcome, Row, Samples, Scenario};
use serde::{Deserialize, Serialize};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "waste",
    what: "Jobs of 1 ms, 100 ms and 10 s in any order over four processes of four slots: how long \
           slots are free while jobs that are ready, or claimed, wait.",
    run,
};

/// A process that works.
pub(crate) const CHILD: redrive_benches::Child = redrive_benches::Child {
    name: "waste_worker",
    run: work,
};

const PROCESSES: usize = 4;
const SLOTS: usize = 4;

/// A job that takes its time.
#[derive(Serialize, Deserialize)]
struct Nap {
    milliseconds: u64,
}

impl Payload for Nap {
    const KIND: &'static str = "nap";
}

fn run(bench: &mut Bench) -> Outcome {
    for (name, instant, middling, slow) in [
        ("1 ms and 10 s", 4_000, 0, 6),
        ("1 ms, 100 ms and 10 s", 2_000, 200, 6),
        ("1 ms and 100 ms", 4_000, 200, 0),
    ] {
        let mut naps = vec![1; bench.sized(instant, 100)];
        naps.extend(vec![100; bench.sized(middling, middling.min(10))]);
        naps.extend(vec![bench.sized(10_000, 1_000); slow]);
        let (mut shares, mut waits, mut spans) = (Samples::new(), Samples::new(), Samples::new());
        for round in 0..bench.sized(3, 1) {
            shuffle(&mut naps, round);
            let (wasted, longest, span) = waste(bench, &naps)?;
            shares.push(wasted * 100.0);
            waits.push(longest * 1000.0);
            spans.push(span);
        }
        bench.row(&Row::new(
            format!("{name}: free although jobs waited"),
            "% of slots",
            &shares,
        ))?;
        bench.row(&Row::new(
            format!("{name}: longest of it in a row"),
            "ms",
            &waits,
        ))?;
        bench.row(&Row::new(
            format!("{name}: until the last has begun"),
            "s",
            &spans,
        ))?;
    }
    Ok(())
}

/// In an order that is no order, and the same in each run.
fn shuffle(naps: &mut [u64], round: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round + 1);
    for last in (1..naps.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or_default() % (last + 1);
        naps.swap(last, other);
    }
}

/// The share of all slots' time that was free while jobs waited, the longest such time in a row,
/// and the whole time, in seconds, from when all are there until the last has begun.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn waste(bench: &Bench, naps: &[u64]) -> Outcome<(f64, f64, f64)> {
    let queue = Queue::new(bench.db(), "waste")?;
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        children.push(
            bench
                .child(CHILD.name, &[])?
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?,
        );
    }
    // They are all there, and have learnt that jobs are quick.
    thread::sleep(Duration::from_secs(1));
    let warm: Vec<Nap> = (0..800).map(|_| Nap { milliseconds: 1 }).collect();
    queue.enqueue_many(&warm)?;
    while !queue.is_drained()? {
        thread::sleep(Duration::from_millis(20));
    }
    let jobs: Vec<Nap> = naps
        .iter()
        .map(|&milliseconds| Nap { milliseconds })
        .collect();
    let ids = queue.enqueue_many(&jobs)?;
    let begin = now();
    while !queue.is_drained()? {
        thread::sleep(Duration::from_millis(50));
    }
    let mut ran: HashMap<i64, (f64, f64)> = HashMap::new();
    for mut child in children {
        drop(child.stdin.take());
        let out = child.stdout.take().ok_or("no output")?;
        for line in BufReader::new(out).lines() {
            let line = line?;
            let mut fields = line.split(' ');
            let mut field = || fields.next().ok_or("a line too short");
            let (id, start, end) = (field()?.parse()?, field()?.parse()?, field()?.parse()?);
            ran.insert(id, (start, end));
        }
        child.wait()?;
    }
    // What happens when: a slot is taken, or free again.
    let mut events: Vec<(f64, i64)> = Vec::new();
    for id in &ids {
        let (start, end) = ran.get(&id.get()).ok_or("a job that did not run")?;
        events.extend([(*start, 1), (*end, -1)]);
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut waiting, mut busy, mut last) = (ids.len(), 0_i64, begin);
    let (mut wasted, mut row, mut longest) = (0.0, 0.0, 0.0_f64);
    let slots = (PROCESSES * SLOTS) as f64;
    let mut span = 0.0;
    for (at, change) in events {
        let free = (slots - busy as f64).min(waiting as f64);
        let took = (at - last).max(0.0);
        wasted += free * took;
        row = if free > 0.0 { row + took } else { 0.0 };
        longest = longest.max(row);
        last = at;
        busy += change;
        if change > 0 {
            waiting -= 1;
            span = at - begin;
        }
    }
    Ok((wasted / (slots * span), longest, span))
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// The child: works until its input ends, and tells what ran when.
#[expect(clippy::print_stdout, reason = "how it tells")]
fn work(bench: &Bench, _: &[String]) -> Outcome {
    let queue = Queue::new(bench.db(), "waste")?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let ran = Arc::clone(&told);
    let worker = Worker::builder(&queue)
        .slots(SLOTS)
        .handle(move |job: &Job<Nap>| {
            let start = now();
            thread::sleep(Duration::from_millis(job.payload().milliseconds));
            let mut ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
            ran.push((job.id().get(), start, now()));
            Ok(())
        })
        .start()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    worker.stop(Duration::from_secs(20))?;
    for (id, start, end) in &*told.lock().unwrap_or_else(PoisonError::into_inner) {
        println!("{id} {start:.6} {end:.6}");
    }
    Ok(())
}
