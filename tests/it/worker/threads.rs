//! Threads: a panic in a thread of the worker is never silent.

use std::sync::Once;

use log::{Log, Metadata, Record};
use redrive::Workers;
use redrive_tests::prelude::*;

/// A log that panics on lines about retries of one queue, about custom backoffs and about letters.
struct Cursed;

/// Returns the name.
const QUEUE: &str = "cursed";

impl Log for Cursed {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = record.args().to_string();
        let is_meant = record.level() <= log::Level::Warn && line.contains("retrying in");
        let is_meant = is_meant && line.contains(QUEUE) || line.contains("custom backoff");
        assert!(!is_meant && !line.contains("dead ("), "the log is broken");
    }

    fn flush(&self) {}
}

fn curse() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Cursed).expect("the only log of this process");
        log::set_max_level(LevelFilter::Warn);
    });
}

#[test]
fn a_worker_stops_with_an_error_if_one_of_its_threads_panics() {
    curse();
    let test = TestDatabase::migrated();
    let proxy = Proxy::to(test.url());
    let db = Database::builder(proxy.url()).connect_timeout(Duration::from_millis(300));
    let db = db.call_timeout(Duration::from_millis(500));
    let db = eventually("a connection", || db.clone().open());
    let queue = Queue::new(&db, QUEUE).unwrap();
    let worker = eventually("a worker", || {
        worker(&queue).handle(|_: &Job<Order>| Ok(())).start()
    });
    assert_eq!(worker.failure(), None);
    // It tries to log the outage, which panics.
    proxy.set_mode(Mode::Refuse);
    wait_until("the worker to notice", SOON, || worker.failure().is_some());
    let why = worker.failure().unwrap().to_owned();
    assert!(why.contains("panicked"), "{why}");
    assert!(worker.stop_handle().is_stopping());
    proxy.mend();
    let error = worker.stop(Duration::ZERO).expect_err("it had stopped");
    assert!(error.is_unavailable(), "{error:?}");
}

#[test]
fn a_stop_names_the_panic_of_a_settler() {
    curse();
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue).handle(|_: &Job<Order>| Err(Failure::reject("no")));
    let worker = worker.started();
    queue.enqueue(&Order { number: 1 }).unwrap();
    wait_until("the panic", SOON, || worker.failure().is_some());
    let error = worker.stop(Duration::ZERO).expect_err("it had stopped");
    has(error, "thread `settler` panicked");
}

/// The jobs that other slots had not started are as they were.
#[test]
fn a_slot_that_panics_has_started_its_job_and_no_other() {
    curse();
    let test = TestDatabase::migrated();
    let db = redrive::connect(test.url()).unwrap();
    let options = BatchOptions::new(2).linger(Duration::from_mins(1));
    let gathering = Handlers::new().handle_batch(options, |_: &Batch<Finish>| Ok(()));
    let failing = Handlers::new().handle(|_: &Job<Order>| Err(Failure::retry("no")));
    let broken = Backoff::custom(|_| panic!("no delay"));
    let worker = Workers::builder(&db)
        .queue("gathering", 1, &gathering)
        .queue_with(QUEUE, |worker| {
            worker.slots(1).backoff(broken).handlers(&failing)
        })
        .start()
        .unwrap();
    let queue = |name| Queue::new(&db, name).unwrap();
    queue("gathering").enqueue(&Finish {}).unwrap();
    test.reaches("leases", 1);
    queue(QUEUE).enqueue(&Order { number: 1 }).unwrap();
    wait_until("the panic", SOON, || worker.failure().is_some());
    assert!(worker.stop(SOON).is_err());
    assert_eq!(test.count("jobs WHERE (meta).refunds = 1"), 1);
    assert_eq!(test.untouched(), 1);
}
