//! A worker process for tests that kill or stop it: `test_worker URL QUEUE`.
//!
//! On SIGTERM it stops without a grace period, or with one of an hour for `test_worker URL QUEUE hour`.
//! It inserts a row into `begun` (job) when a job starts, and into `finished` (job) when it ends.

#![expect(
    clippy::expect_used,
    reason = "a panic here fails the test that started it"
)]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls, Transaction};
use redrive::{Batch, BatchOptions, Failure, Job, JobId, Queue, Worker};
use redrive_tests::{Abort, AbortBatch, Finish, Hold, HoldTransaction, Sql as _};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url: Arc<str> = arguments.next().expect("the URL of the database").into();
    let queue = arguments.next().expect("the name of the queue");
    let grace = match arguments.next() {
        Some(_) => Duration::from_hours(1),
        None => Duration::ZERO,
    };
    let db = redrive::connect(&url).expect("connect");
    let queue = Queue::new(&db, &queue).expect("a valid name");

    let (hold, transaction) = (Arc::clone(&url), Arc::clone(&url));
    let (finish, batch, abort) = (Arc::clone(&url), Arc::clone(&url), url);
    let worker = Worker::builder(&queue)
        .slots(4)
        .poll_interval(Duration::from_millis(20))
        .handle(move |job: &Job<Hold>| {
            note(&hold, "begun", job.id());
            loop {
                thread::park();
            }
        })
        .handle(
            move |job: &Job<HoldTransaction>, tx: &mut Transaction<'_>| {
                note(&transaction, "begun", job.id());
                match job.payload() {
                    HoldTransaction::InStatement => Ok(tx.batch_execute("SELECT pg_sleep(3600)")?),
                    HoldTransaction::BetweenStatements => loop {
                        thread::park();
                    },
                }
            },
        )
        .handle(move |job: &Job<Finish>| {
            note(&finish, "finished", job.id());
            Ok::<(), Failure>(())
        })
        .handle(move |job: &Job<Abort>| {
            note(&abort, "begun", job.id());
            std::process::abort()
        })
        .handle_batch(
            BatchOptions::new(20).linger(Duration::from_millis(20)),
            move |together: &Batch<AbortBatch>| {
                for job in together.jobs() {
                    note(&batch, "begun", job.id());
                    if job.payload().kills {
                        std::process::abort();
                    }
                }
                for job in together.jobs() {
                    note(&batch, "finished", job.id());
                }
                Ok(())
            },
        )
        .start()
        .expect("start the worker");
    worker.run_until_signal(grace).expect("stop");
}

/// Stores that the job reached this point.
fn note(url: &str, table: &str, id: JobId) {
    let mut client = Client::connect(url, NoTls).expect("connect");
    let written = format!("INSERT INTO public.{table} (job) VALUES ($1)");
    client.change(&written, &[&id.get()]);
}
