//! A worker: it does what its jobs say, and writes to the ledger what it did.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redrive::{Backoff, Failure, Job, Payload as _, Queue, Worker};

use crate::actor::{Gateway, LEASE, Options, OwnWork, Plan, QUEUE, Work, opened};
use crate::clock;
use crate::record::{Edge, Effect, Journal, Said};

pub(super) fn run(options: &Options, over: &AtomicBool) {
    let log = options.log();
    log.say(
        0,
        Said::Began {
            pid: std::process::id(),
        },
    );
    let Some(db) = opened(options, over) else {
        return;
    };
    let ledger = Arc::new(Ledger::open(&options.folder, &options.name));
    let (plain, own, gateway) = (Arc::clone(&ledger), ledger, options.gateway);
    let queue = Queue::new(&db, QUEUE).expect("a good name");
    let builder = || {
        let (plain, own) = (Arc::clone(&plain), Arc::clone(&own));
        Worker::builder(&queue)
            .slots(4)
            .lease(LEASE)
            .poll(Duration::from_millis(200))
            .backoff(Backoff::fixed(Duration::from_millis(150)))
            .deadline(Duration::from_mins(1))
            .breaker_after(1000)
            .handle(move |job: &Job<Work>| {
                let run = Run::of(job);
                plain.write(&run, Edge::Begin);
                finish(&plain, &run, job.payload(), gateway)
            })
            .handle_in_transaction(move |job: &Job<OwnWork>, transaction| {
                let run = Run::of(job);
                own.write(&run, Edge::Begin);
                let written = transaction.execute(
                    "INSERT INTO chaos.effects (job, generation) VALUES ($1, $2)",
                    &[&run.job, &run.generation],
                );
                if let Err(error) = written {
                    own.write(&run, Edge::Retry);
                    return Err(Failure::retry(error.to_string()));
                }
                finish(&own, &run, &job.payload().0, gateway)
            })
            .start()
    };
    let worker = loop {
        match builder() {
            Ok(worker) => break worker,
            Err(_) if over.load(Ordering::Relaxed) => return,
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    };
    while !over.load(Ordering::Relaxed) && worker.trouble().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    if let Err(error) = worker.stop(Duration::from_millis(options.grace)) {
        log.say(
            0,
            Said::Unknown {
                why: error.to_string(),
            },
        );
        std::process::exit(3);
    }
}

/// Which run of a handler.
struct Run {
    job: i64,
    generation: i32,
    attempt: i32,
    is_own: bool,
}

impl Run {
    fn of<P>(job: &Job<P>) -> Run {
        Run {
            job: job.id().get(),
            generation: job.generation().cast_signed(),
            attempt: job.attempt().cast_signed(),
            is_own: job.kind() == OwnWork::KIND,
        }
    }
}

/// Where handlers write what they did, outside of the database.
struct Ledger {
    journal: Journal,
    actor: String,
}

impl Ledger {
    fn open(folder: &Path, actor: &str) -> Ledger {
        Ledger {
            journal: Journal::open(&folder.join("effects.jsonl")),
            actor: actor.to_owned(),
        }
    }

    fn write(&self, run: &Run, edge: Edge) {
        self.journal.write(&Effect {
            at: clock::now(),
            actor: self.actor.clone(),
            job: run.job,
            generation: run.generation,
            attempt: run.attempt,
            is_own: run.is_own,
            edge,
        });
    }
}

fn finish(ledger: &Ledger, run: &Run, work: &Work, gateway: Gateway) -> Result<(), Failure> {
    thread::sleep(Duration::from_millis(work.ms));
    let again = run.attempt.cast_unsigned() <= work.times && run.generation == 0;
    let seldom = run.generation == 0 && fastrand::u32(0..3) == 0;
    let (edge, answer) = match work.plan {
        Plan::Retry if again => (
            Edge::Retry,
            Err(Failure::retry(format!("trouble with {}", work.key))),
        ),
        Plan::Panic if again => {
            ledger.write(run, Edge::Retry);
            std::panic::panic_any(format!("no way to do {}", work.key));
        }
        Plan::Reject if run.generation.cast_unsigned() < work.times => (
            Edge::Reject,
            Err(Failure::reject(format!("{} is no good", work.key))),
        ),
        Plan::Snooze if seldom => (
            Edge::Snooze,
            Err(Failure::snooze(Duration::from_millis(200))),
        ),
        Plan::Outage if seldom && gateway == Gateway::Shaky => {
            let failure = Failure::outage("the gateway is down").after(Duration::from_millis(200));
            (Edge::Outage, Err(failure.dependency("gateway")))
        }
        Plan::Abort if run.generation == 0 => std::process::abort(),
        _ => (Edge::Done, Ok(())),
    };
    ledger.write(run, edge);
    answer
}
