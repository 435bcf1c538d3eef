//! The workload of a web shop: three queues, their workers, and steady traffic.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use redrive::{Backoff, Failure, Job, NewJob, Payload, Queue, Worker};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const QUEUES: [&str; 3] = ["orders", "mails", "invoices"];
/// The kinds whose payload is any JSON.
const KINDS: [&str; 6] = [
    "order.placed",
    "order.paid",
    "order.cancelled",
    "mail.welcome",
    "mail.receipt",
    "invoice.remind",
];
/// How often traffic arrives.
const TICK: Duration = Duration::from_millis(250);
/// How long a handler may run.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How long a worker may take to stop.
const GRACE: Duration = Duration::from_secs(10);

/// The conditions that handlers and traffic depend on.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// The payment gateway answers with errors.
    pub(crate) is_gateway_broken: AtomicBool,
    pub(crate) is_tax_service_down: AtomicBool,
    /// The release with the fix is deployed.
    pub(crate) is_fixed: AtomicBool,
    /// Traffic is four times as high.
    pub(crate) is_peak: AtomicBool,
    is_stopped: AtomicBool,
    attempts: AtomicU64,
}

/// The running workload. It stops when dropped.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) conditions: Arc<Conditions>,
    workers: Vec<Worker>,
    traffic: Option<JoinHandle<()>>,
}

/// The payload of the latest release.
#[derive(Debug, Deserialize, Serialize)]
struct Invoice {
    behavior: String,
    amount: f64,
}

impl Payload for Invoice {
    const KIND: &'static str = "invoice.send";
}

impl Workload {
    /// Starts two workers for each queue, and the traffic.
    pub(crate) fn start(url: &str) -> Result<Workload> {
        let conditions = Arc::new(Conditions::default());
        let mut workers = Vec::new();
        for name in QUEUES {
            for _ in 0..2 {
                workers.push(worker(url, name, &conditions)?);
            }
        }
        let traffic = traffic(url, &conditions)?;
        Ok(Workload {
            conditions,
            workers,
            traffic: Some(traffic),
        })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.conditions.is_stopped.store(true, Ordering::Relaxed);
        if let Some(traffic) = self.traffic.take() {
            // A panic has printed its message.
            _ = traffic.join();
        }
        for worker in self.workers.drain(..) {
            if let Err(error) = worker.stop(GRACE) {
                eprintln!("    a worker did not stop: {error}");
            }
        }
    }
}

/// Creates a job; its handler shows the behavior, see [`handle`].
pub(crate) fn job(kind: &str, behavior: &str, number: u64) -> Result<NewJob> {
    let payload =
        format!(r#"{{"behavior": "{behavior}", "amount": {number}.5, "number": {number}}}"#);
    NewJob::raw(kind, &payload).with_context(|| format!("cannot create a job of `{kind}`"))
}

/// Opens a queue with its own connections.
fn queue(url: &str, name: &str) -> Result<Queue> {
    redrive::connect(url)
        .and_then(|db| Queue::new(&db, name))
        .with_context(|| format!("cannot open the queue `{name}`"))
}

/// Starts a worker of a queue. It handles the kinds of all queues.
fn worker(url: &str, name: &str, conditions: &Arc<Conditions>) -> Result<Worker> {
    let mut builder = Worker::builder(&queue(url, name)?)
        .slots(8)
        .poll_interval(Duration::from_millis(200))
        .lease(Duration::from_secs(4))
        .deadline(DEADLINE)
        .version("2.3.1")
        .backoff(Backoff::exponential(Duration::from_millis(500)).max(Duration::from_secs(20)));
    for kind in KINDS {
        let conditions = Arc::clone(conditions);
        builder = builder.handle_kind(kind, move |job| {
            let payload: Value = serde_json::from_str(job.payload().get())?;
            let behavior = payload["behavior"].as_str().unwrap_or_default();
            handle(behavior, job, &conditions)
        });
    }
    let conditions = Arc::clone(conditions);
    builder
        .handle(move |job: &Job<Invoice>| handle(&job.payload().behavior, job, &conditions))
        .start()
        .with_context(|| format!("cannot start a worker of `{name}`"))
}

/// Handles a job by the behavior in its payload and the current conditions.
fn handle<P: Debug>(behavior: &str, job: &Job<P>, conditions: &Conditions) -> Result<(), Failure> {
    let attempt = conditions.attempts.fetch_add(1, Ordering::Relaxed);
    // A mix of quick and slow jobs.
    work_for(job, Duration::from_millis(2 + (attempt * 37) % 90));
    let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    match behavior {
        "pay" if is(&conditions.is_gateway_broken) && !attempt.is_multiple_of(4) => {
            Err(Failure::retry("the payment gateway answered 502").class("GatewayTrouble"))
        }
        "flaky" if job.attempt() == 1 => {
            Err(Failure::retry("connection reset by peer").class("ConnectionReset"))
        }
        "tax" if is(&conditions.is_tax_service_down) => {
            Err(Failure::outage("the tax service does not answer").dependency("tax-service"))
        }
        "currency" if !is(&conditions.is_fixed) => {
            Err(Failure::reject("unknown currency `EURO`").class("InvalidCurrency"))
        }
        "doomed" => Err(Failure::reject("the customer does not exist").class("UnknownCustomer")),
        "moody" if job.generation() == 0 => {
            Err(Failure::reject("the address has no street").class("BadAddress"))
        }
        "moody" if job.generation() == 1 => {
            Err(Failure::reject("the mailbox is full").class("MailboxFull"))
        }
        "buggy" if !is(&conditions.is_fixed) => {
            // A panic without the message on stderr; the letter has it.
            std::panic::resume_unwind(Box::new("index out of bounds: the basket is empty"))
        }
        "slow" => {
            work_for(job, 2 * DEADLINE);
            Ok(())
        }
        "later" if attempt.is_multiple_of(2) => Err(Failure::snooze(Duration::from_secs(2))),
        _ => Ok(()),
    }
}

/// Works until the time is over or the job is cancelled.
fn work_for<P>(job: &Job<P>, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && !job.is_cancelled() {
        thread::sleep(Duration::from_millis(5).min(time));
    }
}

/// Enqueues jobs into all queues until the workload stops.
fn traffic(url: &str, conditions: &Arc<Conditions>) -> Result<JoinHandle<()>> {
    let queues = QUEUES
        .into_iter()
        .map(|name| queue(url, name))
        .collect::<Result<Vec<_>>>()?;
    let conditions = Arc::clone(conditions);
    Ok(thread::spawn(move || {
        let mut number = 0;
        while !conditions.is_stopped.load(Ordering::Relaxed) {
            let start = Instant::now();
            let factor = match conditions.is_peak.load(Ordering::Relaxed) {
                true => 4,
                false => 1,
            };
            for (queue, (name, share)) in queues.iter().zip(QUEUES.into_iter().zip([9, 4, 2])) {
                let jobs = (0..share * factor)
                    .map(|_| {
                        number += 1;
                        ordinary_job(name, number)
                    })
                    .collect::<Result<Vec<_>>>();
                // Scenarios disturb the database. The next tick tries again.
                if let Err(error) = jobs.and_then(|jobs| Ok(queue.enqueue_jobs(&jobs)?)) {
                    eprintln!("    cannot enqueue traffic: {error:#}");
                }
            }
            thread::sleep(TICK.saturating_sub(start.elapsed()));
        }
    }))
}

/// A job of the ordinary traffic. One in twenty fails once.
fn ordinary_job(queue: &str, number: u64) -> Result<NewJob> {
    let behavior = match (queue, number % 20) {
        (_, 0) => "flaky",
        ("orders", 1..=9) => "pay",
        ("invoices", 1..=12) => "tax",
        _ => "succeed",
    };
    let kind = match (queue, number % 7) {
        ("orders", 0 | 1) => "order.cancelled",
        ("orders", 2 | 3) => "order.paid",
        ("orders", _) => "order.placed",
        ("mails", 0..=2) => "mail.welcome",
        ("mails", _) => "mail.receipt",
        (_, 0..=1) => "invoice.remind",
        _ => Invoice::KIND,
    };
    Ok(job(kind, behavior, number)?.max_attempts(3))
}
