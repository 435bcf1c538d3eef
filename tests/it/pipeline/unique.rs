//! Unique jobs: at most one live job of a queue has a given key.

mod enqueue;
mod release;
mod replace;
mod until_started;

use redrive::{Enqueued, JobId, NewJob};
use redrive_tests::{Order, TestDatabase};

fn order(number: i64) -> NewJob {
    NewJob::new(&Order { number }).unwrap()
}

/// Returns the keys and their jobs, ordered by key.
fn held(test: &TestDatabase) -> Vec<(String, JobId)> {
    let asked = "SELECT key, job_id FROM redrive.unique_keys ORDER BY queue, key";
    let rows = test.client().query(asked, &[]).unwrap();
    rows.iter()
        .map(|row| (row.get(0), JobId::new(row.get(1))))
        .collect()
}

#[track_caller]
fn inserted(added: Enqueued) -> JobId {
    match added {
        Enqueued::New(id) => id,
        Enqueued::Existing(id) | Enqueued::Replaced(id) => panic!("job {id} has the key"),
    }
}
