//! A worker: its handlers do what the payload says, and write it to the handler log.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redrive::{Backoff, Failure, Job, Payload as _, Queue, Worker};

use crate::clock;
use crate::gate;
use crate::history::{ClientEvent, HandlerEvent, JsonLines, Phase};
use crate::role::{Gateway, Options, Plan, QUEUE, TransactionalWork, Work, connect};

pub(super) fn run(options: &Options, stop: &AtomicBool) {
    let log = options.log();
    log.write(
        0,
        ClientEvent::Started {
            pid: std::process::id(),
        },
    );
    let Some(db) = connect(options, stop) else {
        return;
    };
    let handlers = Arc::new(Handlers::new(options));
    let queue = Queue::new(&db, QUEUE).expect("a valid name");
    let start = || {
        let (plain, transactional) = (Arc::clone(&handlers), Arc::clone(&handlers));
        Worker::builder(&queue)
            .slots(4)
            .lease(Duration::from_millis(options.lease))
            .poll_interval(Duration::from_millis(200))
            .backoff(Backoff::fixed(Duration::from_millis(150)))
            .deadline(Duration::from_mins(5))
            .breaker_threshold(1000)
            .handle(move |job: &Job<Work>| {
                let attempt = RunningAttempt::of(job);
                plain.write(&attempt, Phase::Begin);
                plain.finish(&attempt, job.payload())
            })
            .handle_in_transaction(move |job: &Job<TransactionalWork>, transaction| {
                let attempt = RunningAttempt::of(job);
                transactional.write(&attempt, Phase::Begin);
                let written = transaction.execute(
                    "INSERT INTO chaos.effects (job, generation) VALUES ($1, $2)",
                    &[&attempt.job, &attempt.generation],
                );
                if let Err(error) = written {
                    transactional.write(&attempt, Phase::Retry);
                    return Err(Failure::retry(error.to_string()));
                }
                transactional.finish(&attempt, &job.payload().0)
            })
            .start()
    };
    let worker = loop {
        match start() {
            Ok(worker) => break worker,
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    };
    while !stop.load(Ordering::Relaxed) && worker.failure().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    if let Err(error) = worker.stop(Duration::from_millis(options.grace)) {
        log.write(
            0,
            ClientEvent::Unknown {
                error: error.to_string(),
            },
        );
        std::process::exit(3);
    }
}

/// An attempt at a job.
struct RunningAttempt {
    job: i64,
    generation: i32,
    number: i32,
    is_transactional: bool,
}

impl RunningAttempt {
    fn of<P>(job: &Job<P>) -> RunningAttempt {
        RunningAttempt {
            job: job.id().get(),
            generation: job.generation().cast_signed(),
            number: job.attempt().cast_signed(),
            is_transactional: job.kind() == TransactionalWork::KIND,
        }
    }
}

/// The handlers of a process, and their log.
struct Handlers {
    log: JsonLines,
    process: String,
    folder: PathBuf,
    gateway: Gateway,
    /// The jobs that this process attempted.
    seen: Mutex<HashSet<i64>>,
}

impl Handlers {
    fn new(options: &Options) -> Handlers {
        Handlers {
            log: JsonLines::open(&options.folder.join("handlers.jsonl")),
            process: options.name.clone(),
            folder: options.folder.clone(),
            gateway: options.gateway,
            seen: Mutex::default(),
        }
    }

    fn write(&self, attempt: &RunningAttempt, phase: Phase) {
        self.log.write(&HandlerEvent {
            at: clock::now(),
            process: self.process.clone(),
            job: attempt.job,
            generation: attempt.generation,
            attempt: attempt.number,
            is_transactional: attempt.is_transactional,
            phase,
        });
    }

    fn is_first_in_process(&self, job: i64) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(job)
    }

    fn finish(&self, attempt: &RunningAttempt, work: &Work) -> Result<(), Failure> {
        thread::sleep(Duration::from_millis(work.ms));
        let is_redriven = attempt.generation > 0;
        let fails = attempt.number.cast_unsigned() <= work.times && !is_redriven;
        let is_first = self.is_first_in_process(attempt.job) && !is_redriven;
        let (phase, result) = match work.plan {
            Plan::Retry if fails => (
                Phase::Retry,
                Err(Failure::retry(format!("cannot process {}", work.key))),
            ),
            Plan::Panic if fails => {
                self.write(attempt, Phase::Retry);
                std::panic::panic_any(format!("panicked at {}", work.key));
            }
            Plan::Reject if attempt.generation.cast_unsigned() < work.times => (
                Phase::Reject,
                Err(Failure::reject(format!("{} is invalid", work.key))),
            ),
            Plan::Snooze if is_first => (
                Phase::Snooze,
                Err(Failure::snooze(Duration::from_millis(200))),
            ),
            Plan::Outage if is_first && self.gateway == Gateway::Shaky => {
                let failure =
                    Failure::outage("the gateway is down").after(Duration::from_millis(200));
                (Phase::Outage, Err(failure.dependency("gateway")))
            }
            Plan::Abort if !is_redriven => std::process::abort(),
            Plan::RetryThenHold if attempt.number == 1 => {
                (Phase::Retry, Err(Failure::retry("first attempt")))
            }
            Plan::Hold | Plan::RetryThenHold => {
                gate::wait(&self.folder, &self.process);
                (Phase::Done, Ok(()))
            }
            _ => (Phase::Done, Ok(())),
        };
        self.write(attempt, phase);
        result
    }
}
