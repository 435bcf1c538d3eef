//! Unique jobs: at most one live job of a queue has a given key.

mod enqueue;
mod release;
mod replace;
mod until_started;
mod window;

use redrive_tests::prelude::*;

/// Returns the keys and their jobs, ordered by key.
fn held(test: &TestDatabase) -> Vec<(String, JobId)> {
    keys(test, "unique_keys")
}

/// Returns the keys of a table and their jobs, ordered by key.
fn keys(test: &TestDatabase, table: &str) -> Vec<(String, JobId)> {
    let asked = format!("SELECT key, job_id FROM redrive.{table} ORDER BY queue, key");
    let rows: Vec<(String, i64)> = test.client().rows(&asked, &[]);
    let keys = rows.into_iter().map(|(key, id)| (key, JobId::new(id)));
    keys.collect()
}

/// Enqueues a job that waits for the transaction of a session, which then commits or rolls back.
#[track_caller]
fn enqueue_behind(test: &TestDatabase, mut open: Client, commits: bool, job: NewJob) -> Enqueued {
    let enqueue = || test.queue("orders").enqueue_job(job).unwrap();
    let end = if commits { "COMMIT" } else { "ROLLBACK" };
    held_up(test, enqueue, || open.sql(end))
}

#[track_caller]
fn inserted(added: Enqueued) -> JobId {
    match added {
        Enqueued::New(id) => id,
        Enqueued::Existing(id) | Enqueued::Replaced(id) => panic!("job {id} has the key"),
    }
}
