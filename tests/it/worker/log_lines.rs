//! Log lines about attempts: one shape, with the fields an operator searches for.

use std::sync::Mutex;
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use redrive::{Backoff, Failure, Job, NewJob};
use redrive_tests::{
    Begin, Logged, Order, SOON, Sql, TestDatabase, counted, ids, stop, wait_until, willing, worker,
};

/// A log that keeps the lines.
struct Lines(Mutex<Vec<(Level, String)>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = (record.level(), record.args().to_string());
        self.0.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

#[test]
fn each_attempt_that_does_not_succeed_is_logged_with_job_attempt_and_delay() {
    log::set_logger(&LINES).expect("the only log of this process");
    log::set_max_level(LevelFilter::Debug);
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        .backoff(Backoff::fixed(Duration::from_secs(8)))
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::retry("no answer")),
            2 => Err(Failure::snooze(Duration::from_mins(1))),
            3 => Err(Failure::outage("the gateway is down")),
            _ => Err(Failure::reject("no such order")),
        })
        .started();
    let orders: Vec<NewJob> = (1..=4)
        .map(|number| NewJob::new(&Order { number }).unwrap())
        .collect();
    let ids = ids(&queue.enqueue_jobs(&orders).unwrap());
    counted(&worker, "all verdicts", |counts| {
        counts.retried + counts.snoozed + counts.outages + counts.dead == 4
    });
    stop(worker);
    let lines = LINES.0.lock().unwrap();
    for (id, level, text) in [
        (ids[0], Level::Info, "failed, retrying in 8s: "),
        (ids[1], Level::Debug, "snoozed, running again in 60s"),
        (ids[2], Level::Debug, "met an outage, retrying in "),
        (ids[3], Level::Warn, "dead (rejected): "),
    ] {
        let fields = format!(" job={id} attempt=1/5: {text}");
        let line = lines.iter().find(|(_, line)| line.contains(&fields));
        let (found, line) = line.unwrap_or_else(|| panic!("{fields:?} in {lines:#?}"));
        assert_eq!(*found, level, "{line}");
        assert!(line.starts_with("queue=orders worker="), "{line}");
    }
}

#[test]
fn an_idle_worker_warns_about_ready_jobs_that_it_does_not_handle() {
    let logged = Logged::start(LevelFilter::Warn);
    let (test, queue) = TestDatabase::with_orders();
    let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                 SELECT 0, q, k, '{}' FROM (VALUES ('orders', 'refund'), ('orders', 'refund'), ('mail', 'letter')) v (q, k)";
    test.client().sql(added);
    let worker = willing(&queue);
    let unhandled = || -> Vec<String> {
        let lines = logged.lines().into_iter();
        lines.filter(|line| line.contains("no handler")).collect()
    };
    wait_until("the warning", SOON, || !unhandled().is_empty());
    stop(worker);
    let [line] = &unhandled()[..] else {
        panic!("one line: {:#?}", unhandled())
    };
    let warning = " kind=refund: 2 ready jobs have no handler in this worker";
    assert!(line.ends_with(warning), "{line}");
}
