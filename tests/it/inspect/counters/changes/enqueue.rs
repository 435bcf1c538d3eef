//! Enqueueing.

use std::time::Duration;

use redrive_tests::{Order, Sql, new_order};

use super::{Case, no_rows};

pub(super) const ENQUEUE: &[Case] = &[
    Case {
        name: "enqueue many",
        given: no_rows,
        change: |s| drop(s.enqueue(3)),
        changes: &[("jobs_enqueued_total{q}", 3), ("queue_live_jobs{q}", 3)],
    },
    Case {
        name: "a delayed job in a transaction",
        given: no_rows,
        change: |s| {
            let mut tx = s.client.transaction().unwrap();
            let job = new_order(1);
            let job = job.delay(Duration::from_mins(1));
            s.queue.enqueue_job_in(&mut tx, &job).unwrap();
            tx.commit().unwrap();
        },
        changes: &[("jobs_enqueued_total{q}", 1), ("queue_live_jobs{q}", 1)],
    },
    Case {
        name: "a rolled back enqueue",
        given: no_rows,
        change: |s| {
            let mut tx = s.client.transaction().unwrap();
            s.queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
            tx.change(
                "SELECT redrive.enqueue($1, 'order', '{}')",
                &[&s.queue.name()],
            );
            tx.rollback().unwrap();
        },
        changes: &[],
    },
    Case {
        name: "enqueue by COPY",
        given: no_rows,
        change: |s| drop(s.enqueue(1500)),
        changes: &[
            ("jobs_enqueued_total{q}", 1500),
            ("queue_live_jobs{q}", 1500),
        ],
    },
    Case {
        name: "enqueue by COPY on a plain client, some delayed",
        given: no_rows,
        change: |s| {
            let job = new_order(1);
            let mut jobs = vec![job.clone(); 1400];
            jobs.extend(vec![job.delay(Duration::from_mins(1)); 100]);
            s.queue.enqueue_jobs_in(&mut s.client, &jobs).unwrap();
        },
        changes: &[
            ("jobs_enqueued_total{q}", 1500),
            ("queue_live_jobs{q}", 1500),
        ],
    },
    Case {
        name: "a failed COPY on a plain client",
        given: |s| {
            s.sql(
                "ALTER TABLE redrive.jobs_delayed ADD CONSTRAINT always_fails CHECK (queue <> 'QUEUE')",
            );
        },
        change: |s| {
            let job = new_order(1);
            let mut jobs = vec![job.clone(); 1400];
            jobs.extend(vec![job.delay(Duration::from_mins(1)); 100]);
            s.queue
                .enqueue_jobs_in(&mut s.client, &jobs)
                .expect_err("the constraint");
        },
        changes: &[],
    },
    Case {
        name: "unique jobs",
        given: no_rows,
        change: |s| {
            let jobs = |keys: &[&str]| {
                let job = || new_order(1);
                keys.iter()
                    .map(|key| job().unique(*key))
                    .collect::<Vec<_>>()
            };
            s.queue.enqueue_jobs(&jobs(&["a", "b", "a"])).unwrap();
            s.queue.enqueue_jobs(&jobs(&["a"])).unwrap();
        },
        changes: &[
            ("jobs_enqueued_total{q}", 2),
            ("enqueue_duplicates_total{q}", 2),
            ("queue_live_jobs{q}", 2),
        ],
    },
    Case {
        name: "enqueue by SQL",
        given: no_rows,
        change: |s| {
            s.sql(
                "SELECT redrive.enqueue('QUEUE', 'order', '{}');
                   SELECT redrive.enqueue('QUEUE', 'order', '{}', delay => '1 hour');
                   SELECT redrive.enqueue('QUEUE', 'order', '{}', unique_key => 'k');
                   SELECT redrive.enqueue('QUEUE', 'order', '{}', unique_key => 'k')",
            );
        },
        changes: &[
            ("jobs_enqueued_total{q}", 3),
            ("enqueue_duplicates_total{q}", 1),
            ("queue_live_jobs{q}", 3),
        ],
    },
];
