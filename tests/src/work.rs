//! Workers for tests, and waiting for what they do.

use std::time::Duration;

use redrive::{
    Backoff, Counts, Database, Failure, Job, JobId, LetterState, Queue, QueueStats, Stopped,
    Worker, WorkerBuilder,
};

use crate::payload::Order;
use crate::wait::{SOON, wait_until};

/// A worker that looks often, retries at once, and runs one job at a time.
pub fn worker(queue: &Queue) -> WorkerBuilder {
    Worker::builder(queue)
        .slots(1)
        .poll(Duration::from_millis(20))
        .backoff(Backoff::fixed(Duration::ZERO))
}

/// Waits until no job of the queue is live.
#[track_caller]
pub fn drained(queue: &Queue) {
    wait_until("the queue to be drained", SOON, || {
        queue.is_drained().expect("ask the queue")
    });
}

/// Waits until the worker has counted what is asked for.
#[track_caller]
pub fn counted(worker: &Worker, what: &str, enough: impl Fn(&Counts) -> bool) {
    wait_until(what, SOON, || enough(&worker.counts()));
}

/// Stops a worker that is expected to end well.
#[track_caller]
pub fn stop(worker: Worker) -> Stopped {
    worker.stop(SOON).expect("stop the worker")
}

/// The numbers of a queue; `None` when it has nothing at all.
pub fn stats(db: &Database, queue: &str) -> Option<QueueStats> {
    db.stats(Some(queue)).expect("ask for the stats").pop()
}

/// How many letters of a queue are in a state.
pub fn letters_in(db: &Database, queue: &str, state: LetterState) -> usize {
    let which = redrive::Letters::queue(queue).state(state).limit(1_000_000);
    db.letters(&which).expect("list letters").len()
}

/// Letters as a worker makes them: jobs that were rejected.
#[track_caller]
pub fn letters(queue: &Queue, count: i64) -> Vec<JobId> {
    let ids = queue
        .enqueue_many(&Order::up_to(count))
        .expect("letters of a worker");
    let worker = worker(queue)
        .slots(4)
        .handle(|_: &Job<Order>| Err(Failure::reject("broken")))
        .start()
        .expect("letters of a worker");
    drained(queue);
    stop(worker);
    assert_eq!(
        letters_in(queue.database(), queue.name(), LetterState::Open),
        ids.len()
    );
    ids
}
