//! Workers for tests, and waiting for what they do.

use std::time::Duration;

use redrive::admin::{JobFilter, QueueStats};
use redrive::dlq::{LetterFilter, LetterState};
use redrive::worker::{StopReport, WorkerStats};
use redrive::{
    Backoff, Database, Enqueued, Failure, Job, JobId, NewJob, Payload, Queue, Worker, WorkerBuilder,
};

use crate::database::TestDatabase;
use crate::gate::Gate;
use crate::payload::{Hold, Order};
use crate::statement::Sql as _;
use crate::wait::{SOON, comes_true, wait_until};

/// Returns the builder of a worker that polls often, retries at once, and runs one job at a time.
pub fn worker(queue: &Queue) -> WorkerBuilder {
    let worker = Worker::builder(queue).slots(1);
    let worker = worker.poll_interval(Duration::from_millis(20));
    worker.backoff(Backoff::fixed(Duration::ZERO))
}

/// Returns the builder of such a worker that renews its lease and does its chores often.
pub fn lively(queue: &Queue) -> WorkerBuilder {
    worker(queue).lease(Duration::from_secs(2))
}

/// A worker that runs a job, and the id of the job, which ends when the gate is opened.
#[track_caller]
pub fn running(queue: &Queue) -> (Gate, Worker, JobId) {
    let gate = Gate::new();
    let worker = worker(queue).runs(gate.handler());
    let id = queue.enqueue(&Hold {}).expect("enqueue a job");
    gate.wait_for(1);
    (gate, worker, id)
}

/// Starts a worker that ends each [`Order`] as done.
#[track_caller]
pub fn willing(queue: &Queue) -> Worker {
    worker(queue).runs(|_: &Job<Order>| Ok(()))
}

/// Runs the jobs of a queue with a handler until none is live.
#[track_caller]
pub fn work_off<P: 'static + Payload>(
    queue: &Queue,
    handler: impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
) {
    finish(queue, worker(queue).runs(handler));
}

/// Starting workers that must start.
pub trait Begin {
    /// Starts the worker.
    fn started(self) -> Worker;

    /// Starts the worker with this handler.
    fn runs<P: 'static + Payload>(
        self,
        handler: impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Worker;
}

impl Begin for WorkerBuilder {
    #[track_caller]
    fn started(self) -> Worker {
        self.start().expect("start a worker")
    }

    #[track_caller]
    fn runs<P: 'static + Payload>(
        self,
        handler: impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Worker {
        self.handle(handler).started()
    }
}

/// Waits until no job of the queue is live, and stops the worker.
#[track_caller]
pub fn finish(queue: &Queue, worker: Worker) -> StopReport {
    drained(queue);
    stop(worker)
}

/// Returns the ids of jobs that were enqueued with options.
pub fn ids(enqueued: &[Enqueued]) -> Vec<JobId> {
    enqueued.iter().map(|job| job.id()).collect()
}

/// Waits until no job of the queue is live, for as long as jobs end.
#[track_caller]
pub fn drained(queue: &Queue) {
    let of_queue = JobFilter::new().queue(queue.name());
    let mut before = u64::MAX;
    while !comes_true(SOON, || queue.is_drained().expect("ask the queue")) {
        let jobs = queue.database().admin().jobs();
        let left = jobs.count(&of_queue).expect("count the jobs").jobs();
        assert!(left < before, "no job of {left} ended within {SOON:?}");
        before = left;
    }
}

/// Waits until the counts of the worker satisfy the condition.
#[track_caller]
pub fn counted(worker: &Worker, what: &str, enough: impl Fn(&WorkerStats) -> bool) {
    wait_until(what, SOON, || enough(&worker.stats()));
}

/// Waits until the worker has ended this many jobs as done.
#[track_caller]
pub fn done(worker: &Worker, jobs: u64) {
    counted(worker, &format!("{jobs} done"), |it| it.done == jobs);
}

/// Waits until the worker has dead-lettered this many jobs.
#[track_caller]
pub fn died(worker: &Worker, jobs: u64) {
    counted(worker, &format!("{jobs} dead"), |it| it.dead == jobs);
}

/// Waits until the worker has retried this many jobs.
#[track_caller]
pub fn retried(worker: &Worker, jobs: u64) {
    counted(worker, &format!("{jobs} retried"), |it| it.retried == jobs);
}

/// Waits until the worker has lost this many results with their leases.
#[track_caller]
pub fn lost(worker: &Worker, jobs: u64) {
    counted(worker, &format!("{jobs} lost"), |it| it.lost == jobs);
}

/// Waits until the workers act on the breakers, pauses and limits as they are now: each has read them, and
/// every claim that began before has ended.
#[track_caller]
pub fn informed(test: &TestDatabase, workers: &[&Worker]) {
    for worker in workers {
        told(test, worker);
        // The first look may have begun before.
        let looks = worker.stats().looks + 2;
        counted(worker, "its earlier claims to end", |it| it.looks >= looks);
    }
}

/// Waits until the worker has read the breakers, pauses and limits as they are now.
#[track_caller]
pub fn told(test: &TestDatabase, worker: &Worker) {
    let mut client = test.client();
    // The first reading may have begun before.
    let readings = worker.stats().readings + 2;
    wait_until("the worker to read what is closed", SOON, || {
        // Again, because a worker that has just started does not listen yet.
        client.sql("NOTIFY redrive_breaker");
        worker.stats().readings >= readings
    });
}

/// Stops a worker and expects it to end without an error.
#[track_caller]
pub fn stop(worker: Worker) -> StopReport {
    worker.stop(SOON).expect("stop the worker")
}

/// Stops workers, which must end without an error. Returns the number of jobs that they have ended as done.
#[track_caller]
pub fn stop_all(workers: impl IntoIterator<Item = Worker>) -> u64 {
    let reports = workers.into_iter().map(stop);
    reports.map(|report| report.stats.done).sum()
}

/// Returns the stats of a queue; `None` if it has no jobs and no letters.
pub fn stats(db: &Database, queue: &str) -> Option<QueueStats> {
    let stats = db.admin().stats(Some(queue));
    stats.expect("ask for the stats").pop()
}

/// Returns the number of letters of a queue in a state.
pub fn letters_in(db: &Database, queue: &str, state: LetterState) -> usize {
    let filter = LetterFilter::new().queue(queue).state(state);
    let letters = db.dlq().list(&filter.limit(1_000_000));
    letters.expect("list letters").len()
}

/// Makes letters by rejecting jobs in a worker. They die in the order of their ids.
#[track_caller]
pub fn letters(queue: &Queue, count: i64) -> Vec<JobId> {
    let ids = queue.enqueue_many(&Order::up_to(count)).expect("jobs");
    work_off(queue, |_: &Job<Order>| Err(Failure::reject("broken")));
    assert_eq!(in_state(queue, LetterState::Open), ids.len());
    ids
}

/// A job with an [`Order`] of this number.
pub fn new_order(number: i64) -> NewJob {
    NewJob::new(&Order { number }).expect("a job")
}

/// Enqueues a job and returns its id.
#[track_caller]
pub fn put(queue: &Queue, job: impl Into<NewJob>) -> JobId {
    queue.enqueue_job(job).expect("enqueue a job").id()
}

/// Returns the number of letters of the queue in a state.
pub fn in_state(queue: &Queue, state: LetterState) -> usize {
    letters_in(queue.database(), queue.name(), state)
}
