//! Micro-benchmarks of the pure parts: `cargo bench -p redrive-benches --bench micro`.
//!
//! They show that these parts are small next to the microseconds of a whole job. Those that allocate
//! report how often.
#![allow(missing_docs, reason = "not a library")]

use std::time::{Duration, Instant};

use divan::{AllocProfiler, Bencher, black_box};
use redrive::dlq::LetterFilter;
use redrive::{Backoff, Failure, NewJob, bench_internals};
use redrive_benches::BenchPayload;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

#[divan::bench]
fn judge_done(bencher: Bencher<'_, '_>) {
    let backoff = Backoff::default();
    bencher.bench(|| bench_internals::judge(black_box(None), 1, 5, &backoff));
}

#[divan::bench]
fn judge_a_retry(bencher: Bencher<'_, '_>) {
    let backoff = Backoff::default();
    bencher
        .with_inputs(|| Failure::retry("gateway timed out"))
        .bench_values(|failure| bench_internals::judge(Some(failure), black_box(1), 5, &backoff));
}

#[divan::bench]
fn judge_a_death(bencher: Bencher<'_, '_>) {
    let backoff = Backoff::default();
    bencher
        .with_inputs(|| Failure::retry("gateway timed out"))
        .bench_values(|failure| bench_internals::judge(Some(failure), black_box(5), 5, &backoff));
}

#[divan::bench(args = [1, 10, 1000])]
fn backoff(bencher: Bencher<'_, '_>, attempt: u32) {
    let backoff = Backoff::default();
    bencher.bench(|| backoff.delay(black_box(attempt), black_box(0.5)));
}

#[divan::bench]
fn demand() -> usize {
    bench_internals::demand(
        black_box(8),
        black_box(Duration::from_micros(10)),
        black_box(700),
    )
}

#[divan::bench(args = [1, 10])]
fn marks(bencher: Bencher<'_, '_>, priorities: i16) {
    let now = Instant::now();
    bencher.bench(|| bench_internals::mark(black_box(500), black_box(priorities), now));
}

#[divan::bench]
fn bucket() -> i16 {
    bench_internals::wait_bucket(black_box(0.731))
}

#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let payload = BenchPayload::new(7);
    bencher.bench(|| NewJob::new(black_box(&payload)));
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let json = BenchPayload::new(7).json();
    bencher.bench(|| serde_json::from_slice::<BenchPayload>(black_box(json.as_bytes())));
}

#[divan::bench(args = [
    "",
    "queue=orders class=Timeout age>2h",
    "queue=orders class=Timeout age>2h payload.amount>100 payload.customer.id=42 state=any limit=50",
])]
fn filter(text: &str) -> redrive::Result<LetterFilter> {
    black_box(text).parse()
}

#[divan::bench]
fn failure_with_an_error() -> Failure {
    let parsed = black_box("x").parse::<i32>();
    parsed.map_or_else(Failure::from, |_| Failure::retry("a number"))
}
