//! Threads: a panic in a thread of the worker is never silent.

use std::sync::Once;

use log::{Log, Metadata, Record};
use redrive_tests::prelude::*;

/// A log that panics on lines about one queue.
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
        assert!(!is_meant || !line.contains(QUEUE), "the log is broken");
    }

    fn flush(&self) {}
}

#[test]
fn a_worker_stops_with_an_error_if_one_of_its_threads_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Cursed).expect("the only log of this process");
        log::set_max_level(LevelFilter::Warn);
    });
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
