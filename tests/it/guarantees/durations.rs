//! Every function takes any duration: it works or rejects the value, and never panics.

use redrive::Result;
use redrive::metrics::Reader;
use redrive_tests::prelude::*;

const ANY: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    // More milliseconds than 64 bits have.
    Duration::from_secs(u64::MAX / 1000),
    Duration::MAX,
];

/// Checks that a call works or calls its input invalid.
fn fine<T>(call: &str, time: Duration, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(error.is_invalid(), "{call}({time:?}): {error:?}");
            None
        }
    }
}

#[test]
fn calls_about_jobs_and_letters_take_any_duration() {
    let test = TestDatabase::migrated();
    let (db, queue) = (test.open(), test.queue("orders"));
    let (dlq, admin) = (db.dlq(), db.admin());
    let by = Operator::new("me").reason("a test");
    for time in ANY {
        let job = || new_order(1);
        let (older, newer) = (LetterFilter::new(), LetterFilter::new());
        let filters = [older.older_than(time), newer.newer_than(time)];
        for filter in filters.map(|filter| filter.limit(10)) {
            let listed: Option<Vec<Letter>> = fine("list", time, dlq.list(&filter));
            assert_eq!(listed.map_or(0, |letters| letters.len()), 0);
            let options = RedriveOptions::new().delay(time);
            fine("redrive", time, dlq.redrive_with(&filter, &options, &by));
        }
        let (jobs, schedules) = (admin.jobs(), db.schedules());
        let every = Schedule::every("s", time).map(|every| every.job("orders", job()));
        let keyed = job().unique("k").unique_window(time);
        let delete = RetentionRule::delete(LetterState::Discarded, time);
        let archive = RetentionRule::archive(LetterState::Recovered, time);
        let (older, newer) = (JobFilter::new(), JobFilter::new());
        let (older, newer) = (older.older_than(time), newer.newer_than(time));
        let expiring = queue.enqueue_job(job().expires_in(time));
        let every = every.and_then(|every| schedules.set(&every, &by));
        let breaker = admin.open_breaker("api", Some(time), &by);
        let since = AuditFilter::new().since(time);
        let limited = queue.limit_rate(RateLimited::Queue, RateLimit::per(1, time), &by);
        for (call, result) in [
            ("delay", queue.enqueue_job(job().delay(time)).map(drop)),
            ("expires_in", expiring.map(drop)),
            ("unique_window", queue.enqueue_job(keyed).map(drop)),
            ("older jobs", jobs.count(&older).map(drop)),
            ("newer jobs", jobs.count(&newer).map(drop)),
            ("count_prunable", dlq.count_prunable(time).map(drop)),
            ("prune", dlq.prune(time, &by).map(drop)),
            ("delete", dlq.retention().set(&delete, &by).map(drop)),
            ("archive", dlq.retention().set(&archive, &by).map(drop)),
            ("apply retention", dlq.retention().apply(&by).map(drop)),
            ("every", every.map(drop)),
            ("audit", admin.audit(&since).map(drop)),
            ("old audit", admin.count_prunable_audit(time).map(drop)),
            ("prune_audit", admin.prune_audit(time, &by).map(drop)),
            ("open_breaker", breaker.map(drop)),
            ("pause", queue.pause(PauseEnd::After(time), &by).map(drop)),
            ("limit_rate", limited.map(drop)),
        ] {
            fine(call, time, result);
        }
        let reading = Reader::new("1").read(&mut test.client(), time);
        assert!(!reading.samples.is_empty());
    }
}

#[test]
fn the_timeouts_of_a_database_take_any_duration() {
    let test = TestDatabase::migrated();
    for time in ANY {
        let builder = || Database::builder(test.url());
        for (call, builder) in [
            ("connect_timeout", builder().connect_timeout(time)),
            ("call_timeout", builder().call_timeout(time)),
            ("bulk_timeout", builder().bulk_timeout(time)),
        ] {
            // No server answers within a nanosecond.
            if time == Duration::from_nanos(1) {
                continue;
            }
            let Some(db) = fine(call, time, builder.open()) else {
                continue;
            };
            let queue = Queue::new(&db, "orders").unwrap();
            queue.enqueue(&Order { number: 1 }).unwrap();
            db.dlq().count_prunable(Duration::ZERO).unwrap();
            let worker = willing(&queue);
            assert!(worker.drain(time).unwrap());
            worker.stop_handle().stop();
            worker.run_until_signal(time).unwrap();
        }
    }
}
