//! The shop: three queues, their workers, and customers who never stop.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redrive::{Backoff, Failure, Job, NewJob, Payload, Queue, Worker, WorkerBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{During, Result};

/// The queues.
pub(crate) const QUEUES: [&str; 3] = ["orders", "mails", "invoices"];
/// How often the customers come.
const TICK: Duration = Duration::from_millis(250);
/// How long a handler may run.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How long workers may take to finish.
const GRACE: Duration = Duration::from_secs(10);

/// What the handlers find in the world outside.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Whether the payment gateway answers with errors.
    pub(crate) is_gateway_broken: AtomicBool,
    /// Whether the tax service is down.
    pub(crate) is_tax_down: AtomicBool,
    /// Whether the release with the fix is out.
    pub(crate) is_fixed: AtomicBool,
    /// Whether customers come in crowds.
    pub(crate) is_rush: AtomicBool,
    is_closed: AtomicBool,
    visits: AtomicU64,
}

/// The shop at work; it closes when dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) world: Arc<World>,
    workers: Vec<Worker>,
    customers: Option<JoinHandle<()>>,
}

/// An invoice as the latest release knows it.
#[derive(Debug, Deserialize, Serialize)]
struct Invoice {
    act: String,
    amount: f64,
}

impl Payload for Invoice {
    const KIND: &'static str = "invoice.send";
}

impl Shop {
    /// Opens it: the workers start, the customers come.
    pub(crate) fn open(url: &str) -> Result<Shop> {
        let world = Arc::new(World::default());
        let mut workers = Vec::new();
        for queue in QUEUES {
            for _ in 0..2 {
                workers.push(worker(url, queue, &world)?);
            }
        }
        let customers = customers(url, &world)?;
        Ok(Shop {
            world,
            workers,
            customers: Some(customers),
        })
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.world.is_closed.store(true, Ordering::Relaxed);
        if let Some(customers) = self.customers.take() {
            // A customer that panicked has told so already.
            _ = customers.join();
        }
        for worker in self.workers.drain(..) {
            if let Err(error) = worker.stop(GRACE) {
                eprintln!("    a worker of the shop did not stop: {error}");
            }
        }
    }
}

/// A job of a kind that does what `act` says; see [`serve`].
pub(crate) fn job(kind: &str, act: &str, number: u64) -> Result<NewJob> {
    let payload = format!(r#"{{"act": "{act}", "amount": {number}.5, "number": {number}}}"#);
    NewJob::raw(kind, &payload).during(|| format!("cannot make a job of `{kind}`"))
}

/// The queue of this name, through connections of its own.
pub(crate) fn queue(url: &str, name: &str) -> Result<Queue> {
    redrive::connect(url)
        .and_then(|db| Queue::new(&db, name))
        .during(|| format!("cannot open the queue `{name}`"))
}

fn worker(url: &str, name: &str, world: &Arc<World>) -> Result<Worker> {
    let base = Worker::builder(&queue(url, name)?)
        .slots(8)
        .poll(Duration::from_millis(200))
        .lease(Duration::from_secs(4))
        .deadline(DEADLINE)
        .version("2.3.1")
        .backoff(Backoff::exponential(Duration::from_millis(500)).max(Duration::from_secs(20)));
    kinds(name, base, world)
        .start()
        .during(|| format!("cannot start a worker of `{name}`"))
}

fn kinds(name: &str, mut worker: WorkerBuilder, world: &Arc<World>) -> WorkerBuilder {
    let kinds: &[&str] = match name {
        "orders" => &["order.placed", "order.paid", "order.cancelled"],
        "mails" => &["mail.welcome", "mail.receipt"],
        _ => &["invoice.remind"],
    };
    for kind in kinds {
        let world = Arc::clone(world);
        worker = worker.handle_kind(kind, move |job| {
            let payload: Value = serde_json::from_str(job.payload().get())?;
            serve(payload["act"].as_str().unwrap_or_default(), job, &world)
        });
    }
    if name == "invoices" {
        let world = Arc::clone(world);
        worker = worker.handle(move |job: &Job<Invoice>| serve(&job.payload().act, job, &world));
    }
    worker
}

/// Does what the payload says, as the world is.
fn serve<P: Debug>(act: &str, job: &Job<P>, world: &World) -> Result<(), Failure> {
    let visit = world.visits.fetch_add(1, Ordering::Relaxed);
    // Some are quick, some take their time, as real ones do.
    work_for(job, Duration::from_millis(2 + (visit * 37) % 90));
    let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    match act {
        "pay" if is(&world.is_gateway_broken) && !visit.is_multiple_of(4) => {
            Err(Failure::retry("the payment gateway answered 502").class("GatewayTrouble"))
        }
        "flaky" if job.attempt() == 1 => {
            Err(Failure::retry("connection reset by peer").class("ConnectionReset"))
        }
        "tax" if is(&world.is_tax_down) => {
            Err(Failure::outage("the tax service does not answer").dependency("tax-service"))
        }
        "currency" if !is(&world.is_fixed) => {
            Err(Failure::reject("`EURO` is no currency").class("InvalidCurrency"))
        }
        "doomed" => Err(Failure::reject("the customer does not exist").class("UnknownCustomer")),
        "moody" if job.generation() == 0 => {
            Err(Failure::reject("the address has no street").class("BadAddress"))
        }
        "moody" if job.generation() == 1 => {
            Err(Failure::reject("the mailbox is full").class("MailboxFull"))
        }
        "buggy" if !is(&world.is_fixed) => {
            // As a panic, but nothing is printed here: the letter has the words.
            std::panic::resume_unwind(Box::new("index out of bounds: the basket is empty"))
        }
        "slow" => {
            work_for(job, 2 * DEADLINE);
            Ok(())
        }
        "later" if visit.is_multiple_of(2) => Err(Failure::snooze(Duration::from_secs(2))),
        _ => Ok(()),
    }
}

/// Works for so long, or until it is told to end.
fn work_for<P>(job: &Job<P>, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && !job.is_cancelled() {
        thread::sleep(Duration::from_millis(5).min(time));
    }
}

/// Customers of all queues, until the shop is closed.
fn customers(url: &str, world: &Arc<World>) -> Result<JoinHandle<()>> {
    let queues = QUEUES
        .into_iter()
        .map(|name| queue(url, name))
        .collect::<Result<Vec<_>>>()?;
    let world = Arc::clone(world);
    Ok(thread::spawn(move || {
        let mut number = 0;
        while !world.is_closed.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let crowd = if world.is_rush.load(Ordering::Relaxed) {
                4
            } else {
                1
            };
            for (queue, (name, share)) in queues.iter().zip(QUEUES.into_iter().zip([9, 4, 2])) {
                let jobs = (0..share * crowd)
                    .map(|_| {
                        number += 1;
                        ordinary(name, number)
                    })
                    .collect::<Result<Vec<_>>>();
                // The database may be busy with what the scenes do to it: they come again.
                let added = jobs.and_then(|jobs| {
                    queue
                        .add_many(jobs)
                        .during(|| "cannot enqueue what customers want")
                });
                if let Err(error) = added {
                    eprintln!("    {error}");
                }
            }
            thread::sleep(TICK.saturating_sub(begin.elapsed()));
        }
    }))
}

/// What customers usually want; now and then it fails once.
fn ordinary(queue: &str, number: u64) -> Result<NewJob> {
    let act = match (queue, number % 20) {
        (_, 0) => "flaky",
        ("orders", 1..=9) => "pay",
        ("invoices", 1..=12) => "tax",
        _ => "go",
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
    Ok(job(kind, act, number)?.max_attempts(3))
}
