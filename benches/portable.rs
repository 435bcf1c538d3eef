//! Runs redrive under the public harness [postgresql-job-queue-benchmarking]: settings come from the environment, jobs to
//! enqueue from standard input, and measurements go to standard output as lines of JSON.
//!
//! A producer enqueues at the rate that the harness gives, a worker runs jobs that sleep, and a sampler prints rates,
//! depths and latencies at whole multiples of the interval. SIGTERM ends it. `portable.json` is its manifest.
//!
//! [postgresql-job-queue-benchmarking]: https://github.com/hardbyte/postgresql-job-queue-benchmarking

use std::collections::VecDeque;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use hdrhistogram::Histogram;
use redrive::admin::QueueStats;
use redrive::limits::WORKER_CONNECTIONS;
use redrive::{Database, Failure, Handlers, Job, NewJob, Payload, Queue, Workers};
use redrive_benches::{Outcome, print_error};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("portable.json");
/// The longest latency that a histogram tells apart, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

#[derive(Serialize, Deserialize)]
struct Work {
    number: u64,
    produced_at: u64,
    padding: String,
}

impl Payload for Work {
    const KIND: &'static str = "work";
}

/// What handlers do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    Never,
    First,
    Always,
}

/// What happened since the start, and the latencies of the last samples.
#[derive(Default)]
struct Tally {
    enqueued: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    claims: Latencies,
    ends: Latencies,
}

/// Latencies in microseconds: those since the last sample, and those of the samples before.
#[derive(Default)]
struct Latencies(Mutex<VecDeque<Histogram<u64>>>);

impl Latencies {
    fn record(&self, since: u64) -> Outcome {
        let mut parts = self.parts();
        if parts.is_empty() {
            parts.push_back(Histogram::new_with_bounds(1, LONGEST, 3)?);
        }
        if let Some(part) = parts.back_mut() {
            part.saturating_record(now().saturating_sub(since).max(1));
        }
        Ok(())
    }

    /// Returns percentiles in milliseconds over this many samples. `None`: there were no jobs.
    fn percentiles(&self, samples: usize) -> Outcome<Option<[f64; 3]>> {
        let mut parts = self.parts();
        while parts.len() > samples {
            parts.pop_front();
        }
        let mut all = Histogram::<u64>::new_with_bounds(1, LONGEST, 3)?;
        for part in &*parts {
            all.add(part)?;
        }
        parts.push_back(Histogram::new_with_bounds(1, LONGEST, 3)?);
        let at = |part| milliseconds(all.value_at_quantile(part));
        Ok((!all.is_empty()).then(|| [at(0.5), at(0.95), at(0.99)]))
    }

    fn parts(&self) -> MutexGuard<'_, VecDeque<Histogram<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let url = std::env::var("DATABASE_URL")?;
    let db = Database::builder(&url)
        .connections(WORKER_CONNECTIONS + 3)
        .open()?;
    db.migrate()?;
    let mut descriptor: Value = serde_json::from_str(MANIFEST)?;
    descriptor["kind"] = "descriptor".into();
    descriptor["instance_id"] = setting("BENCH_INSTANCE_ID", 0_u32)?.into();
    descriptor["version"] = env!("CARGO_PKG_VERSION").into();
    descriptor["schema_version"] = env!("CARGO_PKG_VERSION").into();
    descriptor["started_at"] = timestamp().into();
    print(&[descriptor])?;

    let queues = (0..setting("BENCH_QUEUE_COUNT", 1)?)
        .map(|number: usize| Ok(Queue::new(&db, &format!("portable-{number}"))?))
        .collect::<Outcome<Vec<_>>>()?;
    let tally = Arc::new(Tally::default());
    let handlers = handlers(&tally)?;
    let mut workers = Workers::builder(&db).pool(setting("WORKER_COUNT", 32)?);
    for queue in &queues {
        workers = workers.queue_with(queue.name(), |it| it.share(1).handlers(&handlers));
    }
    let worker = workers.start()?;

    let (stop, stopped) = bounded::<()>(0);
    let sampler = {
        let (db, tally) = (db.clone(), Arc::clone(&tally));
        thread::spawn(move || sample(&db, &tally, &stopped))
    };
    // It ends with the process, because it waits for standard input.
    thread::spawn(move || {
        if let Err(error) = produce(&queues, &db, &tally) {
            print_error(&*error);
            std::process::exit(1);
        }
    });
    worker.run_until_signal(Duration::from_secs(3))?;
    drop(stop);
    sampler
        .join()
        .unwrap_or_else(|_| Err("the sampler panicked".into()))
}

fn handlers(tally: &Arc<Tally>) -> Outcome<Handlers> {
    let work = Duration::from_millis(setting("JOB_WORK_MS", 1)?);
    let every: u64 = setting("JOB_FAIL_FIRST_MOD", 0)?;
    let fails = match setting("WORKER_FAIL_MODE", String::new())?.as_str() {
        "" | "success" if every == 0 => Fails::Never,
        "" | "success" | "retryable-first" => Fails::First,
        "terminal-always" => Fails::Always,
        other => return Err(format!("WORKER_FAIL_MODE is `{other}`").into()),
    };
    let tally = Arc::clone(tally);
    let handle = move |job: &Job<Work>| {
        let produced_at = job.payload().produced_at;
        let is_chosen = every > 0 && job.payload().number.is_multiple_of(every);
        if fails == Fails::Always {
            tally.failed.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::reject("this job always fails"));
        }
        if fails == Fails::First && is_chosen && job.attempt() == 1 {
            tally.failed.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::retry("this job fails once"));
        }
        tally.claims.record(produced_at).map_err(Failure::any)?;
        thread::sleep(work);
        tally.ends.record(produced_at).map_err(Failure::any)?;
        tally.completed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    Ok(Handlers::new().handle(handle))
}

/// Enqueues what the harness asks for, or at its rate, or up to its depth.
fn produce(queues: &[Queue], db: &Database, tally: &Tally) -> Outcome {
    if setting("PRODUCER_ONLY_INSTANCE_ZERO", 0)? == 1 && setting("BENCH_INSTANCE_ID", 0)? != 0 {
        return Ok(());
    }
    let batch: usize = setting("PRODUCER_BATCH_MAX", 128)?;
    let attempts = setting("JOB_MAX_ATTEMPTS", 25)?;
    let bytes: usize = setting("JOB_PAYLOAD_BYTES", 256)?;
    let padding = "x".repeat(bytes.saturating_sub(64));
    let mut numbers = 0_u64..;
    let mut in_turn = queues.iter().cycle();
    let mut enqueue = |mut count: usize| -> Outcome {
        while count > 0 {
            let some = count.min(batch);
            count -= some;
            let jobs = numbers.by_ref().take(some).map(|number| {
                let work = Work {
                    number,
                    produced_at: now(),
                    padding: padding.clone(),
                };
                Ok(NewJob::new(&work)?.max_attempts(attempts))
            });
            let jobs = jobs.collect::<Outcome<Vec<_>>>()?;
            let queue = in_turn.next().ok_or("BENCH_QUEUE_COUNT is 0")?;
            until_answered(|| queue.enqueue_jobs(&jobs));
            tally.enqueued.fetch_add(some as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    match (
        setting("PRODUCER_MODE", "fixed".to_owned())?.as_str(),
        setting("PRODUCER_PACING", "adapter".to_owned())?.as_str(),
    ) {
        ("depth-target", _) => {
            let target: u64 = setting("TARGET_DEPTH", 1000)?;
            loop {
                let stats = until_answered(|| db.admin().stats(None));
                let ready: u64 = stats.iter().map(|queue| queue.ready).sum();
                enqueue(usize::try_from(target.saturating_sub(ready))?)?;
                thread::sleep(Duration::from_millis(5));
            }
        }
        (_, "harness") => {
            for line in std::io::stdin().lock().lines() {
                if let Some(count) = line?.strip_prefix("ENQUEUE ") {
                    enqueue(count.trim().parse()?)?;
                }
            }
            Ok(())
        }
        _ => {
            let mut rate: f64 = setting("PRODUCER_RATE", 800.0)?;
            let changed_rate: PathBuf = setting("PRODUCER_RATE_CONTROL_FILE", PathBuf::new())?;
            let every = Duration::from_millis(setting("PRODUCER_BATCH_MS", 25)?);
            let (mut credited_at, mut credit) = (Instant::now(), 0.0);
            loop {
                thread::sleep(every);
                if let Ok(changed) = std::fs::read_to_string(&changed_rate) {
                    // The harness may be in the middle of a write.
                    rate = changed.trim().parse().unwrap_or(rate);
                }
                credit += credited_at.elapsed().as_secs_f64() * rate;
                credited_at = Instant::now();
                let due = credit.floor();
                credit -= due;
                enqueue(whole(due))?;
            }
        }
    }
}

/// Repeats what needs the database until it succeeds: the harness also takes the server down.
fn until_answered<T>(call: impl Fn() -> redrive::Result<T>) -> T {
    loop {
        match call() {
            Ok(value) => return value,
            Err(error) => print_error(&error),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Prints the measurements at each multiple of the interval, and once more at the end.
fn sample(db: &Database, tally: &Tally, stopped: &Receiver<()>) -> Outcome {
    let every: u64 = setting("SAMPLE_EVERY_S", 5)?;
    let window: u64 = setting("LATENCY_WINDOW_MS", 30_000)?;
    let samples = usize::try_from((window / 1000 / every).max(1))?;
    let interval = every * 1_000_000;
    let counters = [
        ("enqueue_rate", &tally.enqueued),
        ("completion_rate", &tally.completed),
        ("retryable_failure_rate", &tally.failed),
    ];
    let mut before = counters.map(|(_, counter)| counter.load(Ordering::Relaxed));
    let mut sampled_at = Instant::now();
    let mut next = 0;
    loop {
        next = (now().max(next) / interval + 1) * interval;
        let until_next = Duration::from_micros(next.saturating_sub(now()));
        let is_last = stopped.recv_timeout(until_next) == Err(RecvTimeoutError::Disconnected);
        let took = sampled_at.elapsed().as_secs_f64();
        sampled_at = Instant::now();
        let mut values = Vec::new();
        for ((metric, counter), before) in counters.iter().zip(&mut before) {
            let count = counter.load(Ordering::Relaxed);
            values.push(((*metric).to_owned(), number(count - *before) / took, every));
            *before = count;
        }
        for (what, latencies) in [("claim", &tally.claims), ("end_to_end", &tally.ends)] {
            let percentiles = latencies.percentiles(samples)?.into_iter().flatten();
            let named = ["p50", "p95", "p99"].into_iter().zip(percentiles);
            values.extend(
                named.map(|(part, value)| (format!("{what}_{part}_ms"), value, window / 1000)),
            );
        }
        match db.admin().stats(None) {
            Ok(stats) => {
                let sum = |of: fn(&QueueStats) -> u64| number(stats.iter().map(of).sum());
                for (metric, depth) in [
                    ("queue_depth", sum(|queue| queue.ready)),
                    ("running_depth", sum(|queue| queue.leased)),
                    ("retryable_depth", sum(|queue| queue.delayed)),
                ] {
                    values.push((metric.to_owned(), depth, 0));
                }
            }
            Err(error) => print_error(&error),
        }
        let (at, instance): (_, u32) = (timestamp(), setting("BENCH_INSTANCE_ID", 0)?);
        let records = values.into_iter().map(|(metric, value, window)| {
            json!({
                "t": at, "system": "redrive", "instance_id": instance, "kind": "adapter",
                "subject_kind": "adapter", "subject": "",
                "metric": metric, "value": value, "window_s": window,
            })
        });
        print(&records.collect::<Vec<_>>())?;
        if is_last {
            return Ok(());
        }
    }
}

/// Returns a setting from the environment.
fn setting<T: FromStr>(name: &str, default: T) -> Outcome<T>
where
    T::Err: std::fmt::Display,
{
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|error| format!("{name} is `{text}`: {error}").into()),
        Err(_) => Ok(default),
    }
}

fn print(records: &[Value]) -> Outcome {
    let mut out = std::io::stdout().lock();
    for record in records {
        writeln!(out, "{record}")?;
    }
    Ok(out.flush()?)
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn number(count: u64) -> f64 {
    count as f64
}

fn milliseconds(microseconds: u64) -> f64 {
    number(microseconds) / 1e3
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of jobs"
)]
fn whole(jobs: f64) -> usize {
    jobs as usize
}
