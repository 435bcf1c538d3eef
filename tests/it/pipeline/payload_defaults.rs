//! What the type of a payload says about its jobs: queue, attempts, priority, key, group, deadline, backoff.

use redrive_tests::prelude::*;

#[derive(Debug, Serialize, Deserialize)]
struct Invoice {
    order: i64,
}

impl Payload for Invoice {
    const KIND: &'static str = "invoice";
    const QUEUE: Option<&'static str> = Some("mails");
    const ATTEMPTS: u32 = 7;
    const PRIORITY: i16 = 3;
    const DEADLINE: Option<Duration> = Some(Duration::from_millis(50));

    fn backoff() -> Option<Backoff> {
        Some(Backoff::fixed(HOUR))
    }

    fn unique(&self) -> Option<String> {
        (self.order > 0).then(|| format!("invoice {}", self.order))
    }

    fn group(&self) -> Option<String> {
        Some(format!("customer {}", self.order % 2))
    }
}

const VALUE: u32 = 9;

/// As in a program that knows the crate by another name.
mod common {
    pub(super) use redrive as queue;
}

#[allow(non_snake_case)]
#[derive(Debug, Serialize, Deserialize, Payload)]
#[payload(crate = common::queue, kind = Self::NAME, attempts = VALUE, unique = "{orderID}/{type}/{old}")]
struct Foreign {
    orderID: i64,
    r#type: i64,
    #[deprecated]
    old: i64,
}

impl Foreign {
    const NAME: &str = "foreign";
}

#[test]
fn the_macro_accepts_the_names_of_its_user() {
    #[allow(deprecated)]
    #[rustfmt::skip]
    let foreign = Foreign { orderID: 1, r#type: 2, old: 3 };
    assert_eq!((Foreign::KIND, Foreign::ATTEMPTS), ("foreign", 9));
    assert_eq!(foreign.unique(), Some("1/2/3".to_owned()));
}

#[test]
fn every_way_to_enqueue_takes_the_defaults_of_the_type() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let mails = Queue::of::<Invoice>(&db).unwrap();
    assert_eq!(mails.name(), "mails");
    let many = [4, 5, 6].map(|order| Invoice { order });
    let last = [NewJob::new(&many[2]).unwrap()];
    let enqueued = [
        db.enqueue(&Invoice { order: 1 }).unwrap(),
        db.enqueue_in(&mut client, &Invoice { order: 2 }).unwrap(),
        mails.enqueue(&Invoice { order: 3 }).unwrap(),
        mails.enqueue_in(&mut client, &many[0]).unwrap(),
        mails.enqueue_many(&many[1..2]).unwrap()[0],
        mails.enqueue_jobs_in(&mut client, &last).unwrap()[0].id(),
    ];
    for (id, order) in enqueued.into_iter().zip(1..) {
        let job = mails.live(id);
        let found = (&*job.queue, job.max_attempts, job.priority);
        assert_eq!(found, ("mails", 7, 3));
        assert_eq!(job.unique_key, Some(format!("invoice {order}")));
    }
    // The key holds.
    assert_eq!(db.enqueue(&Invoice { order: 1 }).unwrap(), enqueued[0]);
    // A job may have other values.
    let other = NewJob::new(&Invoice { order: 0 }).unwrap();
    let other = other.max_attempts(1).priority(-3).unique("mine");
    let other = mails.enqueue_job(other).unwrap();
    let job = mails.live(other.id());
    assert_eq!((job.max_attempts, job.priority), (1, -3));
    assert_eq!(job.unique_key.as_deref(), Some("mine"));
    let groups =
        "SELECT string_agg(DISTINCT group_key, ',' ORDER BY group_key) FROM redrive.live_jobs";
    let groups: String = client.ask(groups, &[]);
    assert_eq!(groups, "customer 0,customer 1");
}

#[test]
fn no_other_queue_accepts_a_payload_with_a_queue() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let new = || NewJob::new(&Invoice { order: 1 }).unwrap();
    let many = [Invoice { order: 1 }, Invoice { order: 0 }];
    let sample = Job::sample(Order { number: 1 });
    let in_transaction = queue.enqueue_in(&mut client, &many[0]);
    for (what, refused) in [
        ("enqueue", queue.enqueue(&many[0]).map(drop)),
        ("enqueue_in", in_transaction.map(drop)),
        ("enqueue_many", queue.enqueue_many(&many).map(drop)),
        ("enqueue_job", queue.enqueue_job(new()).map(drop)),
        ("enqueue_jobs", queue.enqueue_jobs(&[new()]).map(drop)),
        ("then_in_queue", sample.then_in_queue("orders", new())),
    ] {
        let error = refused.expect_err(what);
        assert!(error.is_invalid(), "{what}: {error}");
        let why = "jobs of kind `invoice` belong to the queue `mails`, not to `orders`";
        has(format!("{what}: {error:#}"), why);
    }
    let none = db.enqueue(&Order { number: 1 }).expect_err("no queue");
    has(none, "names no queue");
    assert!(queue.is_drained().unwrap());
}

#[test]
fn a_handler_takes_the_deadline_and_the_backoff_of_the_type_unless_it_has_its_own() {
    type Handle = fn(WorkerBuilder) -> WorkerBuilder;
    /// Runs until its deadline.
    fn wait<P>(job: &Job<P>) -> Result<(), Failure> {
        wait_until("the deadline", SOON, || job.is_cancelled());
        job.check_cancelled()?;
        Ok(())
    }
    let handlers: [Handle; 3] = [
        |builder| builder.handle(wait::<Invoice>),
        |builder| builder.handle(|job: &Job<Invoice>, _: &mut Transaction<'_>| wait(job)),
        |builder| {
            let handler = |batch: &Batch<Invoice>| wait(&batch.jobs()[0]);
            builder.handle_batch(BatchOptions::new(1), handler)
        },
    ];
    for handle in handlers {
        let (_test, db) = TestDatabase::opened();
        let mails = Queue::of::<Invoice>(&db).unwrap();
        let id = mails.enqueue(&Invoice { order: 1 }).unwrap();
        let worker = handle(worker(&mails)).started();
        retried(&worker, 1);
        stop(worker);
        let job = mails.live(id);
        assert_eq!(job.history.len(), 1);
        // The worker's own backoff is shorter.
        let waits = job.since.duration_since(job.enqueued_at).unwrap();
        assert!(waits > Duration::from_mins(10), "{waits:?}");
    }
    let own = HandlerOptions::new().backoff(Backoff::fixed(Duration::ZERO));
    let (_test, db) = TestDatabase::opened();
    let mails = Queue::of::<Invoice>(&db).unwrap();
    let invoice = NewJob::new(&Invoice { order: 1 }).unwrap();
    put(&mails, invoice.max_attempts(2));
    let failing = |_: &Job<Invoice>| Err(Failure::retry("no"));
    let worker = worker(&mails).handle(failing).options(own).started();
    assert_eq!(finish(&mails, worker).stats.dead, 1);
}
