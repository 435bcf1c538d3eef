//! The poison test: one job that kills its worker, among ten thousand that succeed.

use std::time::{Duration, Instant};

use redrive::dlq::{DeathCause, LetterFilter, LetterState};
use redrive::{Pooler, Queue};

use crate::Programs;
use crate::checker;
use crate::client::Client;
use crate::environment::{Environment, LEASE, Setup};
use crate::processes::ProcessSpec;
use crate::report;
use crate::role::{Plan, QUEUE};
use crate::server::Disk;

/// How many jobs succeed.
const HARMLESS: usize = 10_000;
const WORKERS: usize = 4;
const DRAIN: Duration = Duration::from_mins(3);

/// Runs the test. Returns whether exactly the killer became a letter, and all others succeeded.
pub(crate) fn run(programs: &Programs) -> bool {
    let begin = Instant::now();
    let mut env = Environment::start(&Setup {
        programs,
        pooler: Pooler::Session,
        disk: Disk::Plain,
        seed: 1,
        lease: LEASE,
        patches: &[],
        state_timeout: Duration::ZERO,
    });
    let mut client = Client::open(&env, "client");
    let mut plans = vec![Plan::Done; HARMLESS + 1];
    plans[HARMLESS / 2] = Plan::Abort;
    let killer = client.enqueue(&plans)[HARMLESS / 2];
    for _ in 0..WORKERS {
        env.add(ProcessSpec::worker());
    }
    let queue = Queue::new(client.database(), QUEUE).expect("a valid name");
    let is_drained = env.supervise_until(DRAIN, |_| queue.is_drained().unwrap_or(false));
    let letters = client
        .database()
        .dlq()
        .list(&LetterFilter::new().state(LetterState::Open).limit(100))
        .expect("list letters");
    let finished = env.finish(Duration::from_secs(30));
    let findings = checker::check(&finished.records);
    let is_killer = |letter: &&redrive::dlq::Letter| letter.id.get() == killer;
    let is_proven = |letter: &redrive::dlq::Letter| letter.cause == DeathCause::WorkerLost;
    let killers = letters
        .iter()
        .filter(is_killer)
        .filter(|letter| is_proven(letter))
        .count();
    let others = letters.len() - letters.iter().filter(is_killer).count();
    println!(
        "poison: {:.0} s, drained: {is_drained}, letters of the killer: {killers}, of others: {others}\n    {}",
        begin.elapsed().as_secs_f64(),
        report::describe(&finished.records, &findings)
    );
    is_drained
        && (killers, others) == (1, 0)
        && usize::try_from(findings.totals.done) == Ok(HARMLESS)
        && findings.violations.is_empty()
}
