//! The cost of a death, compared with a retry.

use redrive::{Failure, Job, Queue};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Samples, drain_with, fill};

pub(crate) const WHAT: &str = "50,000 jobs that die, compared with as many that fail once and \
    succeed on retry, each minus the time of jobs that succeed.";

type Handler = fn(&Job<BenchPayload>) -> Result<(), Failure>;

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let died = [
        ("of one failure", alike as Handler),
        ("of ten failures", ten),
        ("with a detail of 3 KiB", detailed),
    ];
    let mut done = Samples::default();
    let mut retries = Samples::default();
    let mut deaths: Vec<Samples> = died.iter().map(|_| Samples::default()).collect();
    for _ in 0..bench.sized(3, 1) {
        let least = once(bench, "done", 1, |_| Ok(()))?;
        done.push(least);
        let retried = once(bench, "retried", 2, |job| match job.attempt() {
            1 => Err(failure(job.payload(), "not yet")),
            _ => Ok(()),
        })?;
        retries.push(retried - least);
        for ((_, handler), samples) in died.iter().zip(&mut deaths) {
            samples.push(once(bench, "died", 1, *handler)? - least);
        }
    }
    bench.report(Measurement::new("a job that is done at once", "us", &done))?;
    bench.report(Measurement::new("a retry costs", "us", &retries))?;
    for ((what, _), samples) in died.iter().zip(&deaths) {
        let name = format!("a death {what} costs, compared with a retry");
        bench.report(Measurement::compared(name, "us", &retries, samples))?;
    }
    Ok(())
}

fn failure(payload: &BenchPayload, what: &str) -> Failure {
    Failure::retry(format!(
        "{what}: payload {} timed out after {} ms",
        payload.id,
        payload.id % 97
    ))
}

fn dead(failure: &Failure) -> Result<(), Failure> {
    Err(Failure::reject(failure.message()).class("Timeout"))
}

fn alike(job: &Job<BenchPayload>) -> Result<(), Failure> {
    dead(&failure(job.payload(), "gateway"))
}

fn ten(job: &Job<BenchPayload>) -> Result<(), Failure> {
    const WHERE: [&str; 10] = [
        "gateway", "depot", "truck", "van", "customs", "port", "ship", "plane", "door", "box",
    ];
    let place = usize::try_from(job.payload().id % 10)?;
    dead(&failure(job.payload(), WHERE[place]))
}

fn detailed(job: &Job<BenchPayload>) -> Result<(), Failure> {
    let frames = "  12: payload::deliver::attempt at src/deliver.rs:118\n".repeat(60);
    let detail = format!("caused by: payload {}\n{frames}", job.payload().id);
    Err(Failure::reject("broken").class("Broken").detail(detail))
}

/// Returns the microseconds per job.
fn once(bench: &Bench, name: &str, attempts: u32, handler: Handler) -> Outcome<f64> {
    let jobs = bench.sized(50_000, 1_000);
    let queue = Queue::new(bench.db(), name)?;
    fill(&queue, jobs)?;
    let drained = drain_with(bench, &queue, jobs, attempts, |builder, ran| {
        let ran = ran.clone();
        builder.handle(move |job: &Job<BenchPayload>| {
            ran.one();
            handler(job)
        })
    })?;
    Ok(1e6 / drained.rate)
}
