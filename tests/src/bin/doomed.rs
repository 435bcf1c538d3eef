//! A worker in a process of its own, for tests that kill it: `doomed URL QUEUE`.
//!
//! It tells through rows of the table `begun` (job) which jobs it has in its hands, and
//! through `finished` (job) which ones it ended.

#![expect(
    clippy::expect_used,
    reason = "whatever goes wrong here fails the test that started it"
)]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::{Failure, Job, JobId, Queue, Worker};
use redrive_tests::{Abort, Finish, Hold};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url: Arc<str> = arguments.next().expect("the URL of the database").into();
    let queue = arguments.next().expect("the name of the queue");
    let db = redrive::connect(&url).expect("connect");
    let queue = Queue::new(&db, &queue).expect("a good name");

    let (hold, finish, abort) = (Arc::clone(&url), Arc::clone(&url), url);
    let _worker = Worker::builder(&queue)
        .slots(4)
        .poll(Duration::from_millis(20))
        .handle(move |job: &Job<Hold>| {
            note(&hold, "begun", job.id());
            loop {
                thread::park();
            }
        })
        .handle(move |job: &Job<Finish>| {
            note(&finish, "finished", job.id());
            Ok::<(), Failure>(())
        })
        .handle(move |job: &Job<Abort>| {
            note(&abort, "begun", job.id());
            std::process::abort()
        })
        .start()
        .expect("start the worker");
    loop {
        thread::park();
    }
}

/// Writes down that the job came this far; durable when it returns.
fn note(url: &str, table: &str, id: JobId) {
    let mut client = Client::connect(url, NoTls).expect("connect");
    let written = format!("INSERT INTO public.{table} (job) VALUES ($1)");
    client
        .execute(&written, &[&id.get()])
        .expect("write down a job");
}
