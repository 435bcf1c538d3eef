//! A worker: its handlers do what the payload says, and write it to the handler log.

mod batches;
mod handlers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redrive::{Backoff, Batch, BatchOptions, Failure, HandlerOptions, Job, Queue, Worker};

use crate::history::{ClientEvent, Phase};
use crate::role::batch;
use crate::role::gateway::{BREAKER_THRESHOLD, GATEWAY};
use crate::role::{
    BACKOFF_STEP, BatchWork, DependentWork, Options, QUEUE, TransactionalWork, Work, insist,
};

use handlers::{Failed, Handlers};

/// How often a worker looks for jobs without a notification, which a fault may lose.
const POLL: Duration = Duration::from_millis(200);
/// How often a worker of another queue does: a process has seven of them.
const OTHER_POLL: Duration = Duration::from_secs(1);
/// How long a job waits until its priority is raised, and to which one.
const AGED: (Duration, i16) = (Duration::from_secs(2), 20);
/// How many jobs such a worker runs at a time.
const OTHER_SLOTS: usize = 4;

pub(super) fn run(options: &Options, stop: &AtomicBool) {
    let log = options.log();
    let Some(db) = insist(stop, || options.open()) else {
        return;
    };
    let handlers = Arc::new(Handlers::new(options));
    let start = |name: &str| {
        let [plain, dependent, transactional, batches] = [(); 4].map(|()| Arc::clone(&handlers));
        let (slots, poll) = match name {
            QUEUE => (options.spec.slots, POLL),
            _ => (OTHER_SLOTS.min(options.spec.slots), OTHER_POLL),
        };
        let builder = Worker::builder(&Queue::new(&db, name)?)
            .slots(slots)
            .lease(options.run.lease)
            .poll_interval(poll)
            .backoff(Backoff::linear(BACKOFF_STEP))
            .deadline(Duration::from_mins(5))
            .breaker_threshold(BREAKER_THRESHOLD)
            .age_priorities(AGED.0, AGED.1)
            .handle(move |job: &Job<Work>| {
                let attempt = plain.begins(job, None);
                plain.finish(job, &attempt, job.payload())
            })
            .handle(move |job: &Job<DependentWork>| {
                let attempt = dependent.begins(job, None);
                dependent.call_gateway(&attempt)?;
                dependent.finish(job, &attempt, &job.payload().0)
            })
            .options(HandlerOptions::new().dependency(GATEWAY))
            .handle(
                move |job: &Job<TransactionalWork>, transaction: &mut postgres::Transaction<'_>| {
                    let attempt = transactional.begins(job, None);
                    let written = transaction.execute(
                        "INSERT INTO chaos.effects (job, generation) VALUES ($1, $2)",
                        &[&attempt.job, &attempt.generation],
                    );
                    if let Err(error) = written {
                        let failure = Failure::retry(error.to_string());
                        let phase = Phase::Retry;
                        let failed = Failed { phase, failure };
                        transactional.write_failed(&attempt, &failed);
                        return Err(failed.failure);
                    }
                    transactional.finish(job, &attempt, &job.payload().0)
                },
            );
        // A worker with batches claims no followers, and only the main queue has such jobs.
        match name {
            QUEUE => builder.handle_batch(
                BatchOptions::new(batch::JOBS).linger(batch::LINGER),
                move |batch: &Batch<BatchWork>| batches.run_batch(batch),
            ),
            _ => builder,
        }
        .start()
    };
    let queues = options.queues().into_iter();
    let workers: Vec<Worker> = queues
        .filter_map(|name| insist(stop, || start(name)))
        .collect();
    let has_failed = |worker: &Worker| worker.failure().is_some();
    while !stop.load(Ordering::Relaxed) && !workers.iter().any(has_failed) {
        thread::sleep(Duration::from_millis(10));
    }
    let errors = stop_all(workers, options.spec.grace);
    for error in &errors {
        let error = error.to_string();
        log.write(0, ClientEvent::Unknown { error });
    }
    if !errors.is_empty() {
        std::process::exit(3);
    }
}

/// Stops workers at the same time. Returns the errors.
fn stop_all(workers: Vec<Worker>, grace: Duration) -> Vec<redrive::Error> {
    thread::scope(|scope| {
        let stops: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker.stop(grace).err()))
            .collect();
        let errors = stops
            .into_iter()
            .filter_map(|stop| stop.join().expect("a stop does not panic"));
        errors.collect()
    })
}
