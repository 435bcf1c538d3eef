//! The poison test: one job that kills its worker, among ten thousand that succeed.

use std::time::{Duration, Instant};

use redrive::Queue;
use redrive::dlq::{DeathCause, LetterState};

use crate::Programs;
use crate::checker;
use crate::client::Client;
use crate::environment::{Environment, Setup};
use crate::processes::ProcessSpec;
use crate::role::operator::letters_of;
use crate::role::{Plan, QUEUE};
use crate::verdict::Verdict;

/// How many jobs succeed.
const HARMLESS: usize = 10_000;
const WORKERS: usize = 4;
const DRAIN: Duration = Duration::from_mins(20);

/// Runs the test. It holds if exactly the killer became a letter, and all others succeeded.
pub(crate) fn run(programs: &Programs) -> Verdict {
    let begin = Instant::now();
    let mut env = Environment::start(&Setup {
        state_timeout: DRAIN,
        ..Setup::of(programs)
    });
    let mut client = Client::open(&env, "client");
    let mut plans = vec![Plan::Done; HARMLESS + 1];
    plans[HARMLESS / 2] = Plan::Abort;
    let killer = client.enqueue(&plans)[HARMLESS / 2];
    for _ in 0..WORKERS {
        env.add(ProcessSpec::worker());
    }
    let queue = Queue::new(client.database(), QUEUE).expect("a valid name");
    env.wait_for("the queue drains", |_| queue.is_drained().unwrap_or(false));
    let open = letters_of(QUEUE).state(LetterState::Open).limit(100);
    let letters = client.database().dlq().list(&open).expect("list letters");
    let causes: Vec<_> = letters
        .iter()
        .map(|letter| (letter.id.get(), letter.cause))
        .collect();
    let finished = env.finish(DRAIN);
    let findings = checker::check(&finished.records);
    let is_right = causes == [(killer, DeathCause::WorkerLost)]
        && usize::try_from(findings.times("done")) == Ok(HARMLESS);
    let play = format!("poison, killer {killer}, letters {causes:?}");
    match Verdict::announce(&play, begin, finished, &findings) {
        Verdict::Held if !is_right => Verdict::Broken,
        verdict => verdict,
    }
}
