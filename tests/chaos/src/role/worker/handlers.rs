//! The handlers of a worker, and the log that they write.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redrive::{Failure, Job, NewJob, Payload as _};

use crate::clock;
use crate::gate;
use crate::history::{HandlerEvent, InBatch, JsonLines, Phase, handler_log};
use crate::role::gateway::{self, OTHER_GATEWAY};
use crate::role::{Gateway, Options, Plan, SNOOZE, TransactionalWork, Work};

/// How an attempt ends.
pub(super) enum Ending {
    Done,
    Failed(Failed),
    /// With this message.
    Panics(String),
}

/// A failure of an attempt, and what the log calls it.
pub(super) struct Failed {
    pub(super) phase: Phase,
    pub(super) failure: Failure,
}

/// The handlers of a process, and their log.
pub(super) struct Handlers {
    log: JsonLines,
    process: String,
    folder: PathBuf,
    gateway: Gateway,
    longest_run: u64,
    /// The jobs that this process attempted.
    seen: Mutex<HashSet<i64>>,
    /// How many handlers this process has called, and how many batches it ran.
    calls: AtomicU64,
    batches: AtomicU64,
}

impl Handlers {
    pub(super) fn new(options: &Options) -> Handlers {
        Handlers {
            log: JsonLines::open(&handler_log(&options.run.folder, &options.name)),
            process: options.name.clone(),
            folder: options.run.folder.clone(),
            gateway: options.spec.gateway,
            longest_run: options.spec.longest_run,
            seen: Mutex::default(),
            calls: AtomicU64::new(0),
            batches: AtomicU64::new(0),
        }
    }

    /// Writes that an attempt begins. Returns what its later events have in common.
    pub(super) fn begins<P>(&self, job: &Job<P>, batch: Option<InBatch>) -> HandlerEvent {
        let begin = HandlerEvent {
            at: clock::now(),
            process: self.process.clone(),
            job: job.id().get(),
            generation: job.generation().cast_signed(),
            attempt: job.attempt().cast_signed(),
            call: self.calls.fetch_add(1, Ordering::Relaxed) + 1,
            is_transactional: job.kind() == TransactionalWork::KIND,
            phase: Phase::Begin,
            error: None,
            checkpoint: job.last_checkpoint().expect("a checkpoint is a number"),
            batch,
        };
        self.log.write(&begin);
        HandlerEvent {
            checkpoint: None,
            ..begin
        }
    }

    pub(super) fn write(&self, attempt: &HandlerEvent, phase: Phase) {
        self.log.write(&event(attempt, phase));
    }

    pub(super) fn write_failed(&self, attempt: &HandlerEvent, failed: &Failed) {
        self.log.write(&HandlerEvent {
            error: Some(failed.failure.message().to_owned()),
            ..event(attempt, failed.phase)
        });
    }

    pub(super) fn write_panicked(&self, attempt: &HandlerEvent, message: &str) {
        self.log.write(&HandlerEvent {
            error: Some(message.to_owned()),
            ..event(attempt, Phase::Retry)
        });
    }

    /// Returns the number of the next batch, counted from 1.
    pub(super) fn next_batch(&self) -> u64 {
        self.batches.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn is_first_in_process(&self, job: i64) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(job)
    }

    /// Writes the checkpoints of an attempt, each greater than the one before, and asks for its follow-up.
    pub(super) fn prepare<P>(
        &self,
        job: &Job<P>,
        attempt: &HandlerEvent,
        work: &Work,
    ) -> redrive::Result<()> {
        for _ in 0..work.steps {
            let value = job.last_checkpoint()?.unwrap_or(0_u64) + 1;
            self.log.write(&HandlerEvent {
                checkpoint: Some(value),
                ..event(attempt, Phase::Checkpoint)
            });
            job.checkpoint(&value)?;
        }
        match work.follow_ups {
            0 => Ok(()),
            _ => job.then(NewJob::new(&work.follow_up(attempt.generation))?),
        }
    }

    /// Fails if the gateway is down.
    pub(super) fn call_gateway(&self, attempt: &HandlerEvent) -> Result<(), Failure> {
        if !gateway::is_down(self.gateway, &self.folder) {
            return Ok(());
        }
        let (phase, failure) = (Phase::Outage, gateway::outage());
        let outage = Failed { phase, failure };
        self.write_failed(attempt, &outage);
        Err(outage.failure)
    }

    pub(super) fn finish<P>(
        &self,
        job: &Job<P>,
        attempt: &HandlerEvent,
        work: &Work,
    ) -> Result<(), Failure> {
        self.prepare(job, attempt, work)?;
        self.sleep(work.ms);
        self.end([attempt].into_iter(), self.ending(attempt, work))
    }

    /// Ends attempts as planned, after writing how.
    pub(super) fn end<'a>(
        &self,
        attempts: impl Iterator<Item = &'a HandlerEvent>,
        end: Ending,
    ) -> Result<(), Failure> {
        match end {
            Ending::Done => {
                attempts.for_each(|attempt| self.write(attempt, Phase::Done));
                Ok(())
            }
            Ending::Failed(failed) => {
                attempts.for_each(|attempt| self.write_failed(attempt, &failed));
                Err(failed.failure)
            }
            Ending::Panics(message) => {
                attempts.for_each(|attempt| self.write_panicked(attempt, &message));
                std::panic::panic_any(message);
            }
        }
    }

    /// Runs for this many milliseconds.
    pub(super) fn sleep(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms.min(self.longest_run)));
    }

    /// Returns how an attempt must end. It waits at a gate or aborts the process before.
    pub(super) fn ending(&self, attempt: &HandlerEvent, work: &Work) -> Ending {
        let is_redriven = attempt.generation > 0;
        let fails = attempt.attempt.cast_unsigned() <= work.times && !is_redriven;
        let is_first = self.is_first_in_process(attempt.job) && !is_redriven;
        let failed = |phase, failure| Ending::Failed(Failed { phase, failure });
        match work.plan {
            Plan::Retry if fails => failed(Phase::Retry, Failure::retry(work.error())),
            Plan::Panic if fails => Ending::Panics(format!("panicked at {}", work.key)),
            Plan::Reject if attempt.generation.cast_unsigned() < work.times => {
                failed(Phase::Reject, Failure::reject(work.error()))
            }
            Plan::RejectAlways => failed(Phase::Reject, Failure::reject("always invalid")),
            Plan::HoldThenRetry if attempt.attempt == 1 => {
                gate::wait(&self.folder, &self.process);
                failed(Phase::Retry, Failure::retry("held attempt"))
            }
            Plan::Snooze if is_first => failed(Phase::Snooze, Failure::snooze(SNOOZE)),
            Plan::Outage if is_first && self.gateway == Gateway::Shaky => {
                let failure =
                    Failure::outage("the gateway is down").after(Duration::from_millis(200));
                failed(Phase::Outage, failure.dependency(OTHER_GATEWAY))
            }
            Plan::Abort if !is_redriven => std::process::abort(),
            Plan::RetryThenHold if attempt.attempt == 1 => {
                failed(Phase::Retry, Failure::retry("first attempt"))
            }
            Plan::Hold | Plan::RetryThenHold => {
                gate::wait(&self.folder, &self.process);
                Ending::Done
            }
            _ => Ending::Done,
        }
    }
}

/// Returns the event of an attempt that comes now.
fn event(attempt: &HandlerEvent, phase: Phase) -> HandlerEvent {
    HandlerEvent {
        at: clock::now(),
        phase,
        ..attempt.clone()
    }
}
