//! A worker: its handlers do what the payload says, and write it to the handler log.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redrive::{Backoff, Failure, Job, NewJob, Payload as _, Queue, Worker};

use crate::clock;
use crate::gate;
use crate::history::{ClientEvent, HandlerEvent, JsonLines, Phase};
use crate::role::{
    BACKOFF_STEP, Gateway, Options, Plan, QUEUE, SNOOZE, TransactionalWork, Work, connect,
};

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
            .slots(options.slots)
            .lease(Duration::from_millis(options.lease))
            .poll_interval(Duration::from_millis(200))
            .backoff(Backoff::linear(BACKOFF_STEP))
            .deadline(Duration::from_mins(5))
            .breaker_threshold(1000)
            .handle(move |job: &Job<Work>| {
                let attempt = RunningAttempt::of(job);
                plain.write(&attempt, Phase::Begin);
                plain.finish(job, &attempt, job.payload())
            })
            .handle_in_transaction(move |job: &Job<TransactionalWork>, transaction| {
                let attempt = RunningAttempt::of(job);
                transactional.write(&attempt, Phase::Begin);
                let written = transaction.execute(
                    "INSERT INTO chaos.effects (job, generation) VALUES ($1, $2)",
                    &[&attempt.job, &attempt.generation],
                );
                if let Err(error) = written {
                    let error = error.to_string();
                    transactional.write_failed(&attempt, Phase::Retry, Some(error.clone()));
                    return Err(Failure::retry(error));
                }
                transactional.finish(job, &attempt, &job.payload().0)
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
    /// The checkpoint with which it began.
    checkpoint: Option<u64>,
}

impl RunningAttempt {
    fn of<P>(job: &Job<P>) -> RunningAttempt {
        RunningAttempt {
            job: job.id().get(),
            generation: job.generation().cast_signed(),
            number: job.attempt().cast_signed(),
            is_transactional: job.kind() == TransactionalWork::KIND,
            checkpoint: job.last_checkpoint().expect("a checkpoint is a number"),
        }
    }
}

/// The handlers of a process, and their log.
struct Handlers {
    log: JsonLines,
    process: String,
    folder: PathBuf,
    gateway: Gateway,
    longest_run: u64,
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
            longest_run: options.longest_run,
            seen: Mutex::default(),
        }
    }

    fn write(&self, attempt: &RunningAttempt, phase: Phase) {
        self.write_failed(attempt, phase, None);
    }

    fn write_failed(&self, attempt: &RunningAttempt, phase: Phase, error: Option<String>) {
        self.log.write(&HandlerEvent {
            error,
            ..self.event(attempt, phase)
        });
    }

    fn event(&self, attempt: &RunningAttempt, phase: Phase) -> HandlerEvent {
        HandlerEvent {
            at: clock::now(),
            process: self.process.clone(),
            job: attempt.job,
            generation: attempt.generation,
            attempt: attempt.number,
            is_transactional: attempt.is_transactional,
            phase,
            error: None,
            checkpoint: attempt.checkpoint.filter(|_| phase == Phase::Begin),
        }
    }

    fn is_first_in_process(&self, job: i64) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(job)
    }

    /// Writes the checkpoints of an attempt, each greater than the one before.
    fn write_checkpoints<P>(
        &self,
        job: &Job<P>,
        attempt: &RunningAttempt,
        steps: u32,
    ) -> redrive::Result<()> {
        for _ in 0..steps {
            let value = job.last_checkpoint()?.unwrap_or(0_u64) + 1;
            self.log.write(&HandlerEvent {
                checkpoint: Some(value),
                ..self.event(attempt, Phase::Checkpoint)
            });
            job.checkpoint(&value)?;
        }
        Ok(())
    }

    fn finish<P>(
        &self,
        job: &Job<P>,
        attempt: &RunningAttempt,
        work: &Work,
    ) -> Result<(), Failure> {
        self.write_checkpoints(job, attempt, work.steps)?;
        if work.follow_ups > 0 {
            job.then(NewJob::new(&work.follow_up(attempt.generation))?)?;
        }
        thread::sleep(Duration::from_millis(work.ms.min(self.longest_run)));
        let is_redriven = attempt.generation > 0;
        let fails = attempt.number.cast_unsigned() <= work.times && !is_redriven;
        let is_first = self.is_first_in_process(attempt.job) && !is_redriven;
        let (phase, result) = match work.plan {
            Plan::Retry if fails => (
                Phase::Retry,
                Err(Failure::retry(format!("cannot process {}", work.key))),
            ),
            Plan::Panic if fails => {
                let message = format!("panicked at {}", work.key);
                self.write_failed(attempt, Phase::Retry, Some(message.clone()));
                std::panic::panic_any(message);
            }
            Plan::Reject if attempt.generation.cast_unsigned() < work.times => (
                Phase::Reject,
                Err(Failure::reject(format!("{} is invalid", work.key))),
            ),
            Plan::RejectAlways => (Phase::Reject, Err(Failure::reject("always invalid"))),
            Plan::HoldThenRetry if attempt.number == 1 => {
                gate::wait(&self.folder, &self.process);
                (Phase::Retry, Err(Failure::retry("held attempt")))
            }
            Plan::Snooze if is_first => (Phase::Snooze, Err(Failure::snooze(SNOOZE))),
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
        let error = result
            .as_ref()
            .err()
            .map(|error| error.message().to_owned());
        self.write_failed(attempt, phase, error);
        result
    }
}
