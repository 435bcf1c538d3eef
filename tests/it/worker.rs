//! The worker: running handlers, waking up, shutting down.

mod ageing;
mod batch;
mod checkpoints;
mod chores;
mod cancelled;
mod deadline;
mod errors;
mod failing_flood;
mod follow_ups;
mod handlers;
mod idle;
mod keep_done;
mod log_lines;
mod observer;
mod sets;
mod slots;
mod spans;
mod spoiled_transaction;
mod stop;
mod stop_in_transaction;
mod stop_unreleased;
mod threads;
mod transaction;
mod undecodable;
mod unhandled;
pub(crate) mod wake;

use redrive_tests::prelude::*;

/// Asserts that no lease and no worker is left.
#[track_caller]
fn nothing_left(test: &TestDatabase) {
    let mut client = test.client();
    assert_eq!((client.count("leases"), client.count("workers")), (0, 0));
}

/// Asserts that a job is ready, and that nothing was charged to it.
#[track_caller]
fn uncharged(queue: &Queue, id: JobId) {
    let job = queue.live(id);
    let found = (job.state, job.attempts, job.crashes);
    assert_eq!(found, (JobState::Ready, 0, 0));
}

/// Waits until this many jobs of the queue are leased.
#[track_caller]
fn leased(queue: &Queue, jobs: u64) {
    wait_until("the jobs to be leased", SOON, || {
        stats(queue.database(), queue.name()).is_some_and(|stats| stats.leased == jobs)
    });
}

/// Waits until the worker has renewed its leases for this long.
#[track_caller]
pub(crate) fn renewed_for(client: &mut Client, ms: i64) {
    let expiry = "SELECT (extract(epoch FROM max(expires_at)) * 1000)::bigint FROM redrive.workers";
    let before = scalar(client, expiry);
    wait_until("renewals of the leases", SOON, || {
        scalar(client, expiry) > before + ms
    });
}
