//! Enqueueing.

use redrive_tests::prelude::*;

use super::{Case, enqueued};

/// Enough jobs for COPY, some of them delayed.
fn many() -> Vec<NewJob> {
    let mut jobs = vec![new_order(1); 1400];
    jobs.extend(vec![new_order(1).delay(Duration::from_mins(1)); 100]);
    jobs
}

pub(super) const ENQUEUE: &[Case] = cases! {
    "enqueue many", |s| drop(s.enqueue(3)) => enqueued(3);
    "a delayed job in a transaction", |s| {
        let mut tx = s.client.transaction().unwrap();
        let job = new_order(1).delay(Duration::from_mins(1));
        s.queue.enqueue_job_in(&mut tx, &job).unwrap();
        tx.commit().unwrap();
    } => enqueued(1);
    "a rolled back enqueue", |s| {
        let mut tx = s.client.transaction().unwrap();
        s.queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
        tx.change("SELECT redrive.enqueue($1, 'order', '{}')", &[&s.queue.name()]);
        tx.rollback().unwrap();
    } => "";
    "enqueue by COPY", |s| drop(s.enqueue(1500)) => enqueued(1500);
    "enqueue by COPY on a plain client, some delayed", |s| {
        s.queue.enqueue_jobs_in(&mut s.client, &many()).unwrap();
    } => enqueued(1500);
    "a failed COPY on a plain client" given |s| {
        s.sql("ALTER TABLE redrive.jobs_delayed ADD CONSTRAINT always_fails CHECK (queue <> 'QUEUE')");
    }, |s| {
        let failed = s.queue.enqueue_jobs_in(&mut s.client, &many());
        failed.expect_err("the constraint");
    } => "";
    "unique jobs", |s| {
        for keys in [&["a", "b", "a"][..], &["a"]] {
            let jobs: Vec<_> = keys.iter().map(|key| new_order(1).unique(*key)).collect();
            s.queue.enqueue_jobs(&jobs).unwrap();
        }
    } => enqueued(2), "enqueue_duplicates_total{q}=2";
    "enqueue by SQL", |s| {
        s.sql("SELECT redrive.enqueue('QUEUE', 'order', '{}');
               SELECT redrive.enqueue('QUEUE', 'order', '{}', delay => '1 hour');
               SELECT redrive.enqueue('QUEUE', 'order', '{}', unique_key => 'k');
               SELECT redrive.enqueue('QUEUE', 'order', '{}', unique_key => 'k')");
    } => enqueued(3), "enqueue_duplicates_total{q}=1";
};
