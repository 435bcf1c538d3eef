//! Every function takes any duration: it works or rejects the value, and never panics.

use std::ops::ControlFlow;
use std::time::Duration;

use redrive::admin::{AuditFilter, JobFilter};
use redrive::dlq::{Letter, LetterFilter, LetterState, Policy, RedriveOptions, RetentionRule};
use redrive::metrics::Reader;
use redrive::schedule::Schedule;
use redrive::{
    Backoff, Database, Failure, Job, Operator, PauseEnd, RateLimit, RateLimited, Result,
};
use redrive_tests::{
    Begin, Order, SOON, TestDatabase, drained, new_order, of_orders, wait_until, willing, worker,
};

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
    let go_on = |_| ControlFlow::Continue(());
    for time in ANY {
        let job = || new_order(1);
        for (call, job) in [
            ("delay", job().delay(time)),
            ("expires_in", job().expires_in(time)),
            ("unique_window", job().unique("k").unique_window(time)),
        ] {
            fine(call, time, queue.enqueue_job(job));
        }
        let letters = |filter: LetterFilter| filter.limit(10);
        for filter in [
            letters(LetterFilter::new().older_than(time)),
            letters(LetterFilter::new().newer_than(time)),
        ] {
            let listed: Option<Vec<Letter>> = fine("list", time, dlq.list(&filter));
            assert_eq!(listed.map_or(0, |letters| letters.len()), 0);
            let options = RedriveOptions::new().delay(time);
            fine("redrive", time, dlq.redrive_with(&filter, &options, &by));
        }
        for filter in [
            JobFilter::new().older_than(time),
            JobFilter::new().newer_than(time),
        ] {
            fine("count jobs", time, admin.jobs().count(&filter));
        }
        fine("count_prunable", time, dlq.count_prunable(time));
        fine("prune", time, dlq.prune(time, &by));
        fine("prune_while", time, dlq.prune_while(time, &by, go_on));
        for rule in [
            RetentionRule::delete(LetterState::Discarded, time),
            RetentionRule::archive(LetterState::Recovered, time),
        ] {
            fine("retention", time, dlq.retention().set(&rule, &by));
        }
        fine("apply retention", time, dlq.retention().apply(&by));
        let policy = Policy::new(of_orders()).longest_delay(time);
        let daily = Schedule::every("p", Duration::from_hours(24)).unwrap();
        fine(
            "policy",
            time,
            db.schedules().set(&daily.redrive(policy), &by),
        );
        fine("audit", time, admin.audit(&AuditFilter::new().since(time)));
        fine(
            "count_prunable_audit",
            time,
            admin.count_prunable_audit(time),
        );
        fine("prune_audit", time, admin.prune_audit(time, &by, go_on));
        fine(
            "open_breaker",
            time,
            admin.open_breaker("api", Some(time), &by),
        );
        fine("pause", time, queue.pause(PauseEnd::After(time), &by));
        let limit = RateLimit::per(1, time);
        fine(
            "limit_rate",
            time,
            queue.limit_rate(RateLimited::Queue, limit, &by),
        );
        if let Some(schedule) = fine("every", time, Schedule::every("s", time)) {
            fine(
                "schedule",
                time,
                db.schedules().set(&schedule.job("orders", job()), &by),
            );
        }
        let schedule = Schedule::cron("c", "0 3 * * *")
            .unwrap()
            .job("orders", job());
        fine(
            "missed_bounds",
            time,
            db.schedules().set(&schedule.missed_bounds(3, time), &by),
        );
        let reading = Reader::new("1").read(&mut test.client(), time);
        assert!(!reading.families.is_empty());
    }
}

#[test]
fn backoffs_and_failures_take_any_duration() {
    for time in ANY {
        for backoff in [
            Backoff::exponential(time),
            Backoff::linear(time),
            Backoff::fixed(time),
            Backoff::custom(move |_| time),
        ] {
            let backoff = backoff.max(time);
            for attempt in [0, 1, u32::MAX] {
                assert!(backoff.delay(attempt, 1.0) <= redrive::limits::MAX_BACKOFF);
            }
        }
    }
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&Order::up_to(8)).unwrap();
    let worker = worker(&queue).runs(|job: &Job<Order>| {
        let time = ANY[usize::try_from(job.payload().number).expect("small") % ANY.len()];
        Err(match job.payload().number < 4 {
            true => Failure::snooze(time),
            false => Failure::retry("later").after(time),
        })
    });
    wait_until("the jobs to be put off", SOON, || {
        let stats = worker.stats();
        stats.snoozed >= 4 && stats.retried >= 4
    });
    worker.stop(Duration::MAX).unwrap();
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
            let queue = redrive::Queue::new(&db, "orders").unwrap();
            queue.enqueue(&Order { number: 1 }).unwrap();
            db.dlq().count_prunable(Duration::ZERO).unwrap();
            let worker = willing(&queue);
            assert!(worker.drain(time).unwrap());
            worker.stop(time).unwrap();
        }
    }
}

#[test]
fn a_worker_waits_and_stops_within_any_duration() {
    let (_test, queue) = TestDatabase::with_orders();
    for time in ANY {
        for stop in ["stop", "run_until_signal"] {
            queue.enqueue(&Order { number: 1 }).unwrap();
            let worker = willing(&queue);
            let is_drained = worker.drain(time).unwrap();
            assert!(is_drained || time < Duration::from_secs(1), "{time:?}");
            drained(&queue);
            let stopped = match stop {
                "stop" => worker.stop(time),
                _ => {
                    worker.stop_handle().stop();
                    worker.run_until_signal(time)
                }
            };
            assert_eq!(stopped.unwrap().stats.done, 1, "{stop} {time:?}");
        }
    }
}
