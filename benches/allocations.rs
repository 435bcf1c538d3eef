//! Heap allocations of a job. A separate program, because it replaces the allocator.
#![allow(missing_docs, reason = "not a library")]

use std::process::ExitCode;

use dhat::{HeapStats, Profiler};
use redrive::Queue;
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Scenario, drain, drain_one_kind, fill, fill_kinds,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SCENARIO: Scenario = Scenario {
    name: "allocations",
    what: "Heap allocations per job in the process of the worker or the enqueuer: the \
           difference of 20,000 and 10,000 jobs, without one-time costs.",
    run,
};

fn main() -> ExitCode {
    redrive_benches::main(&[SCENARIO], &[])
}

type Work = fn(&Bench, usize) -> Outcome<Allocated>;

/// The blocks and bytes that some work allocates.
type Allocated = [u64; 2];

fn run(bench: &mut Bench) -> Outcome {
    let few = bench.sized(10_000, 1_000);
    // Counting starts here.
    let _profiler = Profiler::builder().testing().build();
    for (name, work) in [
        ("drain, ten typed kinds", drained as Work),
        ("drain, failing once", failed),
        ("bulk enqueue", bulk),
        ("single enqueue", single),
    ] {
        let once = work(bench, few)?;
        let twice = work(bench, 2 * few)?;
        for (at, what) in ["allocations", "bytes allocated"].iter().enumerate() {
            // Background threads may allocate more in the first, shorter run.
            let more = i32::try_from(twice[at].saturating_sub(once[at]))?;
            let a_job = f64::from(more) / f64::from(i32::try_from(few)?);
            bench.report(Measurement::new(format!("{name}, {what}"), "a job", a_job))?;
        }
    }
    Ok(())
}

/// Counts the allocations of the work.
fn counted(work: impl FnOnce() -> Outcome) -> Outcome<Allocated> {
    let before = HeapStats::get();
    work()?;
    let after = HeapStats::get();
    Ok([
        after.total_blocks - before.total_blocks,
        after.total_bytes - before.total_bytes,
    ])
}

fn drained(bench: &Bench, jobs: usize) -> Outcome<Allocated> {
    let queue = Queue::new(bench.db(), "drained")?;
    fill_kinds(&queue, jobs)?;
    counted(|| drain(bench, &queue, jobs, 1).map(drop))
}

fn failed(bench: &Bench, jobs: usize) -> Outcome<Allocated> {
    let queue = Queue::new(bench.db(), "failed")?;
    fill(&queue, jobs)?;
    counted(|| drain_one_kind(bench, &queue, jobs, 2).map(drop))
}

fn bulk(bench: &Bench, jobs: usize) -> Outcome<Allocated> {
    let queue = Queue::new(bench.db(), "bulk")?;
    let payloads = BenchPayload::many(jobs);
    counted(|| {
        queue.enqueue_many(&payloads)?;
        Ok(())
    })
}

fn single(bench: &Bench, jobs: usize) -> Outcome<Allocated> {
    let queue = Queue::new(bench.db(), "single")?;
    let payloads = BenchPayload::many(jobs / 10);
    let all = counted(|| {
        for payload in &payloads {
            queue.enqueue(payload)?;
        }
        Ok(())
    })?;
    // A tenth of the jobs, because this is slow.
    Ok(all.map(|number| number * 10))
}
