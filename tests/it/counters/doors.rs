//! Doors: whatever happens to a job or a letter is counted once, by whichever door it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::Client;
use redrive::{
    Act, Captured, Edit, Failure, HandlerOptions, Job, JobId, Letter, LetterState, Letters, NewJob,
    Queue, RedriveOptions, Retention,
};
use redrive_tests::{
    Gate, Order, Published, TestDatabase, changed, drained, fold, no_drift, published, reap,
    statement, stop, worker,
};
use uuid::Uuid;

/// Where an act takes place: a queue that no other act has.
struct Scene {
    queue: Queue,
    client: Client,
}

/// A word, its label, its cause, its bucket, and how many.
type Cell = (
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<i16>,
    i64,
);

/// A door: its name, what it needs that is not looked at, the act, and what it is to change: series
/// without the prefix, and with `q` for the queue.
struct Door {
    name: &'static str,
    before: fn(&mut Scene),
    act: fn(&mut Scene),
    changes: &'static [(&'static str, i64)],
}

impl Scene {
    fn enqueue(&self, count: i64) -> Vec<JobId> {
        self.queue.enqueue_many(&Order::up_to(count)).unwrap()
    }

    /// Works the queue off with a handler.
    fn work(&self, handler: impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static) {
        let worker = worker(&self.queue).handle(handler).start().unwrap();
        drained(&self.queue);
        stop(worker);
    }

    fn sql(&mut self, text: &str) {
        self.client
            .batch_execute(&text.replace("QUEUE", self.queue.name()))
            .unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }

    /// Claims by hand, for a worker that nobody is; answers the lease.
    fn claim(&mut self) -> Uuid {
        let lease = Uuid::new_v4();
        self.client
            .query(
                statement("claim"),
                &[
                    &self.queue.name(),
                    &None::<Vec<String>>,
                    &Vec::<String>::new(),
                    &500_i64,
                    &1_000_000_i64,
                    &1_i32,
                    &lease,
                    &Uuid::nil(),
                    &vec![-32768_i16],
                    &vec![0_i64],
                    &vec![32767_i16],
                    &None::<Vec<String>>,
                ],
            )
            .expect("claim");
        lease
    }

    fn release(&mut self) {
        self.client
            .query(
                statement("release"),
                &[
                    &Uuid::nil(),
                    &None::<Vec<Uuid>>,
                    &Vec::<Uuid>::new(),
                    &0_i32,
                    &Vec::<i64>::new(),
                    &10_i32,
                    &"manual",
                ],
            )
            .expect("release");
    }

    /// The lease of the jobs that were claimed.
    fn lease(&mut self) -> Uuid {
        let asked = "SELECT lease_id FROM redrive.leases WHERE queue = $1";
        self.client
            .query_one(asked, &[&self.queue.name()])
            .unwrap()
            .get(0)
    }

    /// Settles the jobs of a lease by hand, with their verdicts and causes, and counts these
    /// cells of them; it ends.
    fn settle(&mut self, lease: Uuid, verdicts: &[(&str, Option<&str>)], cells: &[Cell]) {
        let asked = "SELECT array_agg(j.id ORDER BY j.id) FROM redrive.leases l, unnest(l.jobs) j
                     WHERE l.lease_id = $1";
        let held: Option<Vec<i64>> = self.client.query_one(asked, &[&lease]).unwrap().get(0);
        let count = verdicts.len();
        let jobs = held.unwrap_or_else(|| (1..).take(count).collect());
        let (words, causes): (Vec<_>, Vec<_>) = verdicts.iter().copied().unzip();
        self.client
            .query(
                statement("settle"),
                &[
                    &vec![lease; count],
                    &jobs,
                    &words,
                    &vec![0_i64; count],
                    &causes,
                    &vec!["Broken"; count],
                    &vec!["broken"; count],
                    &vec![None::<&str>; count],
                    &vec![None::<serde_json::Value>; count],
                    &Uuid::nil(),
                    &"host",
                    &"1",
                    &"manual",
                    &vec![false; count],
                    &1_i32,
                    &self.queue.name(),
                    &vec![0_i16; count],
                    &vec![lease; cells.len()],
                    &cells.iter().map(|cell| cell.0).collect::<Vec<_>>(),
                    &cells.iter().map(|cell| cell.1).collect::<Vec<_>>(),
                    &cells.iter().map(|cell| cell.2).collect::<Vec<_>>(),
                    &cells.iter().map(|cell| cell.3).collect::<Vec<_>>(),
                    &cells.iter().map(|cell| cell.4).collect::<Vec<_>>(),
                    &vec![0.0_f64; cells.len()],
                ],
            )
            .expect("settle");
    }

    fn letters(&self) -> Letters {
        Letters::queue(self.queue.name())
    }

    fn redrive(&self) {
        let db = self.queue.database();
        let redriven = db.redrive(&self.letters(), &Act::new()).unwrap();
        assert!(!redriven.redriven.is_empty());
    }

    fn letters_of(&self, count: i64) {
        redrive_tests::letters(&self.queue, count);
    }

    fn captured(&self, position: &str) -> Captured {
        let name = self.queue.name();
        Captured::new(name, position, name, "event", b"{}").error("Broken", "m")
    }
}

fn nothing(_: &mut Scene) {}

fn reject(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::reject("broken").class("Broken"))
}

#[expect(clippy::unnecessary_wraps, reason = "it is one handler among others")]
fn succeed(_: &Job<Order>) -> Result<(), Failure> {
    Ok(())
}

/// What a failed first attempt is followed by.
fn once(failure: fn() -> Failure) -> impl Fn(&Job<Order>) -> Result<(), Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Err(failure()),
        _ => Ok(()),
    }
}

/// What each success changes, times so many.
macro_rules! done {
    ($times:literal $(, $series:literal: $change:literal)*) => {
        &[
            ("jobs_claimed_total{q}", $times), ("job_queue_wait_seconds{q}", $times),
            ("jobs_succeeded_total{q,order}", $times), ("job_run_seconds{q,succeeded}", $times),
            ("job_end_to_end_seconds{q}", $times), ("job_attempts_to_success{q}", $times),
            ("queue_live_jobs{q}", -$times), $(($series, $change)),*
        ]
    };
}

/// What a first attempt that failed and a second that did not change.
macro_rules! second_try {
    ($($series:literal: $change:literal),*) => {
        &[
            ("jobs_claimed_total{q}", 2), ("job_queue_wait_seconds{q}", 2),
            ("jobs_succeeded_total{q,order}", 1), ("job_run_seconds{q,succeeded}", 1),
            ("job_end_to_end_seconds{q}", 1), ("job_attempts_to_success{q}", 1),
            ("queue_live_jobs{q}", -1), $(($series, $change)),*
        ]
    };
}

/// What the death of one job on its first attempt changes, by cause, reason and class.
macro_rules! died {
    ($cause:literal, $reason:literal, $class:literal) => {
        &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            (
                concat!("job_attempts_failed_total{q,order,", $cause, "}"),
                1,
            ),
            ("job_run_seconds{q,failed}", 1),
            (concat!("jobs_dead_lettered_total{q,", $reason, "}"), 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            (concat!("dlq_errors_total{q,", $class, "}"), 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("queue_live_jobs{q}", -1),
        ]
    };
}

const DOORS: &[Door] = &[
    Door {
        name: "enqueue many",
        before: nothing,
        act: |s| drop(s.enqueue(3)),
        changes: &[("jobs_enqueued_total{q}", 3), ("queue_live_jobs{q}", 3)],
    },
    Door {
        name: "enqueue in a transaction, delayed",
        before: nothing,
        act: |s| {
            let mut tx = s.client.transaction().unwrap();
            let job = NewJob::new(&Order { number: 1 }).unwrap();
            let job = job.delay(Duration::from_mins(1));
            s.queue.add_in(&mut tx, job).unwrap();
            tx.commit().unwrap();
        },
        changes: &[("jobs_enqueued_total{q}", 1), ("queue_live_jobs{q}", 1)],
    },
    Door {
        name: "a rollback un-counts",
        before: nothing,
        act: |s| {
            let mut tx = s.client.transaction().unwrap();
            s.queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
            tx.execute(
                "SELECT redrive.enqueue($1, 'order', '{}')",
                &[&s.queue.name()],
            )
            .unwrap();
            tx.rollback().unwrap();
        },
        changes: &[],
    },
    Door {
        name: "enqueue by COPY",
        before: nothing,
        act: |s| drop(s.enqueue(1500)),
        changes: &[
            ("jobs_enqueued_total{q}", 1500),
            ("queue_live_jobs{q}", 1500),
        ],
    },
    Door {
        name: "enqueue by COPY on a plain client, some delayed",
        before: nothing,
        act: |s| {
            let job = NewJob::new(&Order { number: 1 }).unwrap();
            let mut jobs = vec![job.clone(); 1400];
            jobs.extend(vec![job.delay(Duration::from_mins(1)); 100]);
            s.queue.add_many_in(&mut s.client, &jobs).unwrap();
        },
        changes: &[
            ("jobs_enqueued_total{q}", 1500),
            ("queue_live_jobs{q}", 1500),
        ],
    },
    Door {
        name: "a COPY that fails on a plain client",
        before: |s| {
            s.sql(
                "ALTER TABLE redrive.jobs_delayed ADD CONSTRAINT full_up CHECK (queue <> 'QUEUE')",
            );
        },
        act: |s| {
            let job = NewJob::new(&Order { number: 1 }).unwrap();
            let mut jobs = vec![job.clone(); 1400];
            jobs.extend(vec![job.delay(Duration::from_mins(1)); 100]);
            s.queue
                .add_many_in(&mut s.client, &jobs)
                .expect_err("refused");
        },
        changes: &[],
    },
    Door {
        name: "unique jobs",
        before: nothing,
        act: |s| {
            let jobs = |keys: &[&str]| {
                let job = || NewJob::new(&Order { number: 1 }).unwrap();
                keys.iter()
                    .map(|key| job().unique(*key))
                    .collect::<Vec<_>>()
            };
            s.queue.add_many(jobs(&["a", "b", "a"])).unwrap();
            s.queue.add_many(jobs(&["a"])).unwrap();
        },
        changes: &[
            ("jobs_enqueued_total{q}", 2),
            ("enqueue_duplicates_total{q}", 2),
            ("queue_live_jobs{q}", 2),
        ],
    },
    Door {
        name: "enqueue by SQL",
        before: nothing,
        act: |s| {
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
    Door {
        name: "jobs that are done",
        before: |s| drop(s.enqueue(70)),
        act: |s| s.work(succeed),
        changes: done!(70),
    },
    Door {
        name: "delayed jobs are moved when due, and their priority changed",
        before: |s| {
            let job = NewJob::new(&Order { number: 1 }).unwrap();
            let job = job.delay(Duration::from_hours(1));
            let ids = s.queue.add_many(vec![job; 3]).unwrap();
            let ready = s.enqueue(1);
            s.sql("UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 minute' WHERE queue = 'QUEUE'");
            assert!(s.queue.database().set_priority(ids[0], 7).unwrap());
            assert!(s.queue.database().set_priority(ready[0], 7).unwrap());
        },
        act: |s| {
            s.client
                .query(statement("promote"), &[&s.queue.name(), &10_i64])
                .unwrap();
            s.sql("SELECT redrive.turn_ring(0, 1000)");
        },
        changes: &[],
    },
    Door {
        name: "a failed attempt is retried",
        before: |s| drop(s.enqueue(1)),
        act: |s| s.work(once(|| Failure::retry("not yet"))),
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,error}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
    Door {
        name: "a job is put off",
        before: |s| drop(s.enqueue(1)),
        act: |s| s.work(once(|| Failure::snooze(Duration::ZERO))),
        changes: second_try!("jobs_snoozed_total{q}": 1),
    },
    Door {
        name: "a job meets an outage",
        before: |s| drop(s.enqueue(1)),
        act: |s| s.work(once(|| Failure::outage("down"))),
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,outage}": 1,
            "job_run_seconds{q,failed}": 1
        ),
    },
    Door {
        name: "a handler panics",
        before: |s| drop(s.enqueue(1)),
        act: |s| {
            s.work(|job| match job.attempt() {
                1 => panic!("a panic that a test wants"),
                _ => Ok(()),
            });
        },
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,panic}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
    Door {
        name: "a rejected job dies",
        before: |s| drop(s.enqueue(1)),
        act: |s| s.work(reject),
        changes: died!("rejected", "rejected", "Broken"),
    },
    Door {
        name: "an exhausted job dies",
        before: |s| {
            let job = NewJob::new(&Order { number: 1 }).unwrap().max_attempts(1);
            s.queue.add(job).unwrap();
        },
        act: |s| s.work(|_| Err(Failure::retry("again").class("Broken"))),
        changes: died!("error", "exhausted", "Broken"),
    },
    Door {
        name: "an undecodable job dies",
        before: |s| {
            s.queue.add(NewJob::raw("order", "7").unwrap()).unwrap();
        },
        act: |s| s.work(succeed),
        changes: died!(
            "undecodable",
            "undecodable",
            "redrive_tests::payload::Order"
        ),
    },
    Door {
        name: "a job overruns its deadline and dies",
        before: |s| {
            let job = NewJob::new(&Order { number: 1 }).unwrap().max_attempts(1);
            s.queue.add(job).unwrap();
        },
        act: |s| {
            let gate = Gate::new();
            let held = gate.clone();
            let options = HandlerOptions::new().deadline(Duration::from_millis(1));
            let worker = worker(&s.queue)
                .handle_with(options, move |_: &Job<Order>| {
                    held.pass();
                    Ok(())
                })
                .start()
                .unwrap();
            drained(&s.queue);
            gate.open();
            stop(worker);
        },
        changes: died!("timeout", "timeout", "Timeout"),
    },
    Door {
        name: "a handler settles its job in its own transaction",
        before: |s| drop(s.enqueue(3)),
        act: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|_: &Job<Order>, _| Ok(()))
                .start()
                .unwrap();
            drained(&s.queue);
            stop(worker);
        },
        changes: done!(3),
    },
    Door {
        name: "a handler's own transaction is rolled back",
        before: |s| drop(s.enqueue(1)),
        act: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|job: &Job<Order>, _| match job.attempt() {
                    1 => Err(Failure::retry("not yet")),
                    _ => Ok(()),
                })
                .start()
                .unwrap();
            drained(&s.queue);
            stop(worker);
        },
        changes: second_try!(
            "jobs_retried_total{q}": 1, "job_attempts_failed_total{q,order,error}": 1,
            "job_run_seconds{q,failed}": 1, "job_retry_delay_seconds{q}": 1
        ),
    },
    Door {
        name: "jobs are given back",
        before: |s| {
            s.enqueue(4);
            s.claim();
        },
        act: |s| s.release(),
        changes: &[("jobs_released_total{q}", 4)],
    },
    Door {
        name: "a leased job is cancelled and given back",
        before: |s| {
            let ids = s.enqueue(1);
            s.claim();
            s.queue.database().cancel(ids[0]).unwrap();
        },
        act: |s| s.release(),
        changes: &[
            ("jobs_dead_lettered_total{q,manual}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,cancelled}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Door {
        name: "a lease is lost",
        before: |s| {
            s.enqueue(4);
            s.claim();
        },
        act: |s| drop(reap(&mut s.client)),
        changes: &[
            ("leases_lost_total{q}", 1),
            ("jobs_released_total{q}", 4),
            ("job_attempts_failed_total{q,order,worker_lost}", 4),
        ],
    },
    Door {
        name: "a job has lost too many workers",
        before: |s| {
            s.enqueue(1);
            for _ in 1..redrive::MAX_CRASHES {
                s.claim();
                reap(&mut s.client);
                s.client
                    .query(statement("promote"), &[&s.queue.name(), &10_i64])
                    .unwrap();
            }
            s.claim();
        },
        act: |s| drop(reap(&mut s.client)),
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
    Door {
        name: "results whose lease was lost are refused",
        before: nothing,
        act: |s| {
            // By hand: a lease that nobody has, of three jobs that were done; and of one that was
            // not.
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
                    ],
                )
                .expect("settle what is done");
            let retried = ("retried", None, None, None, 1);
            s.settle(lease, &[("retry", Some("error"))], &[retried]);
        },
        changes: &[("results_refused_total{q}", 4)],
    },
    Door {
        name: "a ready and a delayed job are cancelled",
        before: |s| drop(s.enqueue(1)),
        act: |s| {
            let ready = s.queue.enqueue(&Order { number: 1 }).unwrap();
            let job = NewJob::new(&Order { number: 1 }).unwrap();
            let delayed = s.queue.add(job.delay(Duration::from_mins(1))).unwrap();
            let db = s.queue.database();
            db.cancel(ready).unwrap();
            db.cancel(delayed).unwrap();
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
    Door {
        name: "jobs are cancelled that nobody told their worker of",
        before: |s| {
            s.enqueue(2);
            s.claim();
        },
        act: |s| {
            let lease = s.lease();
            s.sql(
                "UPDATE redrive.leases l SET cancelled = ARRAY(SELECT j.id FROM unnest(l.jobs) j)
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
    Door {
        name: "failures are captured, each once",
        before: nothing,
        act: |s| {
            let db = s.queue.database();
            for position in ["1", "2", "2"] {
                db.capture(&s.captured(position)).unwrap();
            }
            let many = ["2", "3", "3", "4"].map(|position| s.captured(position));
            db.capture_many(&many).unwrap();
            s.sql("SELECT redrive.capture('sql', '1', 'QUEUE', 'event', '{}')");
        },
        changes: &[
            ("jobs_dead_lettered_total{q,captured}", 5),
            ("jobs_dead_lettered_by_kind_total{q,event}", 5),
            ("dlq_errors_total{q,Broken}", 4),
            ("dlq_errors_total{q,captured}", 1),
            ("dlq_letters{q,open}", 5),
        ],
    },
    Door {
        name: "a captured failure is seen again while it is redriven",
        before: |s| {
            s.queue.database().capture(&s.captured("1")).unwrap();
            s.redrive();
        },
        act: |s| {
            s.queue.database().capture(&s.captured("1")).unwrap();
        },
        changes: &[],
    },
    Door {
        name: "letters are redriven",
        before: |s| s.letters_of(3),
        act: |s| s.redrive(),
        changes: &[
            ("dlq_redriven_total{q}", 3),
            ("dlq_letters{q,open}", -3),
            ("dlq_letters{q,redriving}", 3),
            ("queue_live_jobs{q}", 3),
            ("dlq_residence_seconds{q,redriven}", 3),
        ],
    },
    Door {
        name: "letters are redriven by SQL into another queue",
        before: |s| s.letters_of(2),
        act: |s| {
            s.sql("SELECT redrive.redrive('{\"queue\": \"QUEUE\"}', to_queue => 'QUEUE-2')");
        },
        changes: &[
            ("dlq_redriven_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q-2,redriving}", 2),
            ("queue_live_jobs{q-2}", 2),
            ("dlq_residence_seconds{q,redriven}", 2),
        ],
    },
    Door {
        name: "redriven jobs are done",
        before: |s| {
            s.letters_of(2);
            s.redrive();
        },
        act: |s| s.work(succeed),
        changes: done!(2, "dlq_recovered_total{q}": 2, "dlq_letters{q,redriving}": -2,
                       "dlq_letters{q,recovered}": 2),
    },
    Door {
        name: "redriven jobs are done in a handler's own transaction",
        before: |s| {
            s.letters_of(2);
            s.redrive();
        },
        act: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|_: &Job<Order>, _| Ok(()))
                .start()
                .unwrap();
            drained(&s.queue);
            stop(worker);
        },
        changes: done!(2, "dlq_recovered_total{q}": 2, "dlq_letters{q,redriving}": -2,
                       "dlq_letters{q,recovered}": 2),
    },
    Door {
        name: "a redriven job dies again",
        before: |s| {
            s.letters_of(1);
            s.redrive();
        },
        act: |s| s.work(reject),
        changes: &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Broken}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Door {
        name: "of redriven jobs one recovers and one dies again, in one statement",
        before: |s| {
            s.letters_of(2);
            s.redrive();
            s.claim();
        },
        act: |s| {
            let lease = s.lease();
            let cells = [
                ("succeeded", Some("order"), None, None, 1),
                ("ended", None, None, None, 1),
                ("failed", Some("order"), Some("rejected"), None, 1),
                ("wait", None, None, Some(0), 2),
                ("run", Some("succeeded"), None, Some(0), 1),
                ("run", Some("failed"), None, Some(0), 1),
                ("end_to_end", None, None, Some(0), 1),
                ("attempts_done", None, None, Some(0), 1),
            ];
            s.settle(lease, &[("done", None), ("dead", Some("rejected"))], &cells);
        },
        changes: &[
            ("job_queue_wait_seconds{q}", 2),
            ("jobs_succeeded_total{q,order}", 1),
            ("job_run_seconds{q,succeeded}", 1),
            ("job_end_to_end_seconds{q}", 1),
            ("job_attempts_to_success{q}", 1),
            ("dlq_recovered_total{q}", 1),
            ("dlq_letters{q,recovered}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Broken}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -2),
            ("queue_live_jobs{q}", -2),
        ],
    },
    Door {
        name: "the third death alike is quarantined",
        before: |s| {
            s.letters_of(1);
            for _ in 0..2 {
                s.redrive();
                s.work(|_| Err(Failure::reject("broken")));
            }
            s.redrive();
        },
        act: |s| s.work(|_| Err(Failure::reject("broken"))),
        changes: &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Rejected}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,quarantined}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Door {
        name: "quarantined letters are forced back",
        before: |s| {
            s.letters_of(2);
            s.sql("UPDATE redrive.dead_letters SET state = 'quarantined' WHERE queue = 'QUEUE'");
        },
        act: |s| {
            let act = Act::new().why("fixed");
            let options = RedriveOptions::new().force();
            s.queue
                .database()
                .redrive_with(&s.letters(), &options, &act)
                .unwrap();
        },
        changes: &[
            ("dlq_redriven_total{q}", 2),
            ("dlq_letters{q,quarantined}", -2),
            ("dlq_letters{q,redriving}", 2),
            ("queue_live_jobs{q}", 2),
            ("dlq_residence_seconds{q,redriven}", 2),
        ],
    },
    Door {
        name: "a redriven job is cancelled",
        before: |s| {
            s.letters_of(1);
            s.redrive();
        },
        act: |s| {
            let asked = "SELECT id FROM redrive.jobs WHERE queue = $1";
            let id: i64 = s
                .client
                .query_one(asked, &[&s.queue.name()])
                .unwrap()
                .get(0);
            s.queue.database().cancel(JobId::new(id)).unwrap();
        },
        changes: &[
            ("jobs_dead_lettered_total{q,manual}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,cancelled}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Door {
        name: "letters are discarded",
        before: |s| s.letters_of(2),
        act: |s| {
            let act = Act::new().why("sold out");
            s.queue.database().discard(&s.letters(), &act).unwrap();
        },
        changes: &[
            ("dlq_discarded_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q,discarded}", 2),
            ("dlq_residence_seconds{q,discarded}", 2),
        ],
    },
    Door {
        name: "letters are edited",
        before: |s| s.letters_of(2),
        act: |s| {
            let edit = Edit::merge(r#"{"number": 7}"#).unwrap();
            s.queue
                .database()
                .edit(&s.letters(), &edit, &Act::new())
                .unwrap();
        },
        changes: &[],
    },
    Door {
        name: "letters are delivered to a sink",
        before: |s| s.letters_of(2),
        act: |s| {
            let sink = |_: &Letter| Ok(());
            s.queue
                .database()
                .redrive_to(&s.letters(), &sink, &Act::new())
                .unwrap();
        },
        changes: &[
            ("dlq_recovered_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q,recovered}", 2),
        ],
    },
    Door {
        name: "closed letters are pruned",
        before: |s| {
            s.letters_of(2);
            let act = Act::new().why("sold out");
            s.queue.database().discard(&s.letters(), &act).unwrap();
        },
        act: |s| {
            let taken = "SELECT redrive.take_away('QUEUE', 'discarded', '0', 'delete', 100)";
            s.sql(taken);
        },
        changes: &[("dlq_pruned_total{q}", 2), ("dlq_letters{q,discarded}", -2)],
    },
    Door {
        name: "open letters are archived",
        before: |s| s.letters_of(2),
        act: |s| {
            let rule = Retention::archive(LetterState::Open, Duration::ZERO);
            let db = s.queue.database();
            db.set_retention(&rule.queue(s.queue.name()), &Act::new())
                .unwrap();
            db.retain(&Act::new()).unwrap();
        },
        changes: &[("dlq_pruned_total{q}", 2), ("dlq_letters{q,open}", -2)],
    },
];

/// Goes through a door, and says what it changed, with `q` for its queue.
fn done(scene: &mut Scene, door: &Door) -> Published {
    (door.before)(scene);
    let before = published(&mut scene.client);
    (door.act)(scene);
    let after = published(&mut scene.client);
    let name = scene.queue.name();
    changed(&before, &after)
        .into_iter()
        .map(|(series, change)| (series.replace(name, "q"), change))
        .collect()
}

#[test]
fn each_is_counted_once_before_and_after_it_is_folded() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let mut wrong = Vec::new();
    for (number, door) in DOORS.iter().enumerate() {
        let mut scene = Scene {
            queue: Queue::new(&db, &format!("queue-{number}-of-a-test")).unwrap(),
            client: test.client(),
        };
        let changes = done(&mut scene, door);
        let expected: Published = door
            .changes
            .iter()
            .map(|(series, change)| (format!("redrive_{series}"), *change))
            .collect();
        if changes != expected {
            let missing = changed(&changes, &expected);
            wrong.push(format!("{}: {missing:#?} is missing", door.name));
        }
        let before = published(&mut scene.client);
        no_drift(&db);
        fold(&mut scene.client);
        let after = published(&mut scene.client);
        let folded: Published = changed(&before, &after);
        if !folded.is_empty() {
            wrong.push(format!("{}: the fold changes {folded:#?}", door.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
