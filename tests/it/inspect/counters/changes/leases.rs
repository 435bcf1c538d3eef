//! Leases: release, expiry and cancellation.

use std::time::Duration;

use redrive_tests::{Order, new_order, put, reap, statement};
use uuid::Uuid;

use super::{Case, no_rows};

pub(super) const LEASES: &[Case] = &[
    Case {
        name: "jobs are released",
        given: |s| {
            s.enqueue(4);
            s.claim();
        },
        change: |s| s.release(),
        changes: &[("jobs_released_total{q}", 4)],
    },
    Case {
        name: "a leased job is cancelled and released",
        given: |s| {
            let ids = s.enqueue(1);
            s.claim();
            s.queue.database().admin().cancel(ids[0]).unwrap();
        },
        change: |s| s.release(),
        changes: &[
            ("jobs_dead_lettered_total{q,manual}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,cancelled}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Case {
        name: "a lease expires",
        given: |s| {
            s.enqueue(4);
            s.claim();
        },
        change: |s| drop(reap(&mut s.client)),
        changes: &[
            ("leases_lost_total{q}", 1),
            ("jobs_released_total{q}", 4),
            ("job_attempts_failed_total{q,order,worker_lost}", 4),
        ],
    },
    Case {
        name: "a job has lost too many workers",
        given: |s| {
            s.enqueue(1);
            for _ in 1..redrive::limits::MAX_CRASHES {
                s.claim();
                reap(&mut s.client);
                s.client
                    .query(
                        statement("promote"),
                        &[&s.queue.name(), &10_i64, &0_i64, &0_i64, &10_000_i64],
                    )
                    .unwrap();
            }
            s.claim();
        },
        change: |s| drop(reap(&mut s.client)),
        changes: &[
            ("leases_lost_total{q}", 1),
            ("job_attempts_failed_total{q,order,worker_lost}", 1),
            ("jobs_dead_lettered_total{q,worker_lost}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,worker_lost}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Case {
        name: "results of a lost lease are rejected",
        given: no_rows,
        change: |s| {
            // An unknown lease with three completed jobs, and one that was retried.
            let lease = Uuid::new_v4();
            s.client
                .query(
                    statement("settle_done"),
                    &[
                        &vec![lease],
                        &s.queue.name(),
                        &vec![lease; 2],
                        &vec!["succeeded", "attempts_done"],
                        &vec![Some("order"), None],
                        &vec![None, Some(0_i16)],
                        &vec![3_i64, 3],
                        &vec![0.0_f64, 3.0],
                        &vec![3_i32],
                        &false,
                    ],
                )
                .expect("settle what is done");
            let retried = ("retried", None, None, None, 1);
            s.settle(lease, &[("retry", Some("error"))], &[retried]);
        },
        changes: &[("results_refused_total{q}", 4)],
    },
    Case {
        name: "a ready and a delayed job are cancelled",
        given: |s| drop(s.enqueue(1)),
        change: |s| {
            let ready = s.queue.enqueue(&Order { number: 1 }).unwrap();
            let job = new_order(1);
            let delayed = put(&s.queue, job.delay(Duration::from_mins(1)));
            let db = s.queue.database();
            db.admin().cancel(ready).unwrap();
            db.admin().cancel(delayed).unwrap();
        },
        changes: &[
            ("jobs_enqueued_total{q}", 2),
            ("jobs_dead_lettered_total{q,manual}", 2),
            ("jobs_dead_lettered_by_kind_total{q,order}", 2),
            ("dlq_errors_total{q,cancelled}", 2),
            ("job_attempts_at_dead_letter{q}", 2),
            ("dlq_letters{q,open}", 2),
        ],
    },
    Case {
        name: "jobs are cancelled without a notice to their worker",
        given: |s| {
            s.enqueue(2);
            s.claim();
        },
        change: |s| {
            let lease = s.lease();
            s.sql(
                "UPDATE redrive.leases l SET cancelled = l.ids
                 WHERE l.queue = 'QUEUE'",
            );
            let cells = [
                ("retried", None, None, None, 1),
                ("snoozed", None, None, None, 1),
                ("failed", Some("order"), Some("error"), None, 1),
                ("wait", None, None, Some(0), 2),
                ("run", Some("failed"), None, Some(0), 1),
                ("retry_delay", None, None, Some(0), 1),
            ];
            s.settle(lease, &[("retry", Some("error")), ("snooze", None)], &cells);
        },
        changes: &[
            ("job_queue_wait_seconds{q}", 2),
            ("job_attempts_failed_total{q,order,error}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,manual}", 2),
            ("jobs_dead_lettered_by_kind_total{q,order}", 2),
            ("dlq_errors_total{q,Broken}", 2),
            ("job_attempts_at_dead_letter{q}", 2),
            ("dlq_letters{q,open}", 2),
            ("queue_live_jobs{q}", -2),
        ],
    },
];
