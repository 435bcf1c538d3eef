//! Attempts: success, failure and death of jobs.

use std::time::Duration;

use redrive::{Failure, HandlerOptions, Job, NewJob};
use redrive_tests::{Begin, ids};
use redrive_tests::{Gate, Order, drained, finish, new_order, put, statement, stop, worker};

use super::{Case, once, reject, succeed};

pub(super) const ATTEMPTS: &[Case] = &[
    Case {
        name: "jobs succeed",
        given: |s| drop(s.enqueue(70)),
        change: |s| s.work(succeed),
        changes: done!(70),
    },
    Case {
        name: "due jobs are promoted and priorities change",
        given: |s| {
            let job = new_order(1);
            let job = job.delay(Duration::from_hours(1));
            let ids = ids(&s.queue.enqueue_jobs(&vec![job; 3]).unwrap());
            let ready = s.enqueue(1);
            s.sql("UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 minute' WHERE queue = 'QUEUE'");
            assert!(s.queue.database().admin().set_priority(ids[0], 7).unwrap());
            assert!(
                s.queue
                    .database()
                    .admin()
                    .set_priority(ready[0], 7)
                    .unwrap()
            );
        },
        change: |s| {
            s.client
                .query(
                    statement("promote"),
                    &[&s.queue.name(), &10_i64, &0_i64, &0_i64, &10_000_i64],
                )
                .unwrap();
            s.sql("SELECT redrive.turn_ring(0, 1000)");
        },
        changes: &[],
    },
    Case {
        name: "a failed attempt is retried",
        given: |s| drop(s.enqueue(1)),
        change: |s| s.work(once(|| Failure::retry("not yet"))),
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,error}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
    Case {
        name: "a job is snoozed",
        given: |s| drop(s.enqueue(1)),
        change: |s| s.work(once(|| Failure::snooze(Duration::ZERO))),
        changes: second_try!("jobs_snoozed_total{q}": 1),
    },
    Case {
        name: "a job meets an outage",
        given: |s| drop(s.enqueue(1)),
        change: |s| s.work(once(|| Failure::outage("down"))),
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,outage}": 1,
            "job_run_seconds{q,failed}": 1
        ),
    },
    Case {
        name: "a handler panics",
        given: |s| drop(s.enqueue(1)),
        change: |s| {
            s.work(|job| match job.attempt() {
                1 => panic!("expected"),
                _ => Ok(()),
            });
        },
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,panic}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
    Case {
        name: "a rejected job dies",
        given: |s| drop(s.enqueue(1)),
        change: |s| s.work(reject),
        changes: died!("rejected", "rejected", "Broken"),
    },
    Case {
        name: "an exhausted job dies",
        given: |s| {
            let job = new_order(1).max_attempts(1);
            put(&s.queue, job);
        },
        change: |s| s.work(|_| Err(Failure::retry("again").class("Broken"))),
        changes: died!("error", "exhausted", "Broken"),
    },
    Case {
        name: "an undecodable job dies",
        given: |s| {
            put(&s.queue, NewJob::raw("order", "7").unwrap());
        },
        change: |s| s.work(succeed),
        changes: died!(
            "undecodable",
            "undecodable",
            "redrive_tests::payload::Order"
        ),
    },
    Case {
        name: "a job exceeds its deadline and dies",
        given: |s| {
            let job = new_order(1).max_attempts(1);
            put(&s.queue, job);
        },
        change: |s| {
            let gate = Gate::new();
            let held = gate.clone();
            let options = HandlerOptions::new().deadline(Duration::from_millis(1));
            let worker = worker(&s.queue)
                .handle_with(options, move |_: &Job<Order>| {
                    held.pass();
                    Ok(())
                })
                .started();
            drained(&s.queue);
            gate.open();
            stop(worker);
        },
        changes: died!("timeout", "timeout", "Timeout"),
    },
    Case {
        name: "a handler settles its job in a transaction",
        given: |s| drop(s.enqueue(3)),
        change: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|_: &Job<Order>, _| Ok(()))
                .started();
            finish(&s.queue, worker);
        },
        changes: done!(3),
    },
    Case {
        name: "the transaction of a handler rolls back",
        given: |s| drop(s.enqueue(1)),
        change: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|job: &Job<Order>, _| match job.attempt() {
                    1 => Err(Failure::retry("not yet")),
                    _ => Ok(()),
                })
                .started();
            finish(&s.queue, worker);
        },
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,error}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
];
