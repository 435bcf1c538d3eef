//! Every operation on jobs and letters changes the counters exactly once.

/// The changes of a number of successes.
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

/// The changes of a failed first and a successful second attempt.
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

/// The changes of a job that dies at its first attempt.
macro_rules! died {
    ($cause:literal, $death:literal, $class:literal) => {
        &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            (
                concat!("job_attempts_failed_total{q,order,", $cause, "}"),
                1,
            ),
            ("job_run_seconds{q,failed}", 1),
            (concat!("jobs_dead_lettered_total{q,", $death, "}"), 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            (concat!("dlq_errors_total{q,", $class, "}"), 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("queue_live_jobs{q}", -1),
        ]
    };
}

mod attempts;
mod enqueue;
mod leases;
mod letters;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postgres::Client;
use redrive::dlq::{ForeignFailure, LetterFilter};
use redrive::{Failure, Job, JobId, Queue};
use redrive_tests::{
    Count, Dead, Order, Published, Settlement, Sql, TestDatabase, changed, fold, no_drift,
    published, statement, work_off,
};
use uuid::Uuid;

use attempts::ATTEMPTS;
use enqueue::ENQUEUE;
use leases::LEASES;
use letters::LETTERS;

/// The queue of a case, and a connection.
struct Fixture {
    queue: Queue,
    client: Client,
}

/// An operation: what it needs, what it does, and the series it changes.
///
/// The names of the series are without their prefix, and `q` is the queue.
struct Case {
    name: &'static str,
    given: fn(&mut Fixture),
    change: fn(&mut Fixture),
    changes: &'static [(&'static str, i64)],
}

impl Fixture {
    fn enqueue(&self, count: i64) -> Vec<JobId> {
        self.queue.enqueue_many(&Order::up_to(count)).unwrap()
    }

    /// Drains the queue with a handler.
    fn work(&self, handler: impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static) {
        work_off(&self.queue, handler);
    }

    fn sql(&mut self, text: &str) {
        self.client
            .batch_execute(&text.replace("QUEUE", self.queue.name()))
            .unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }

    /// Runs the claim for a worker that does not exist. Returns the lease.
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
                    &i32::MAX,
                    &lease,
                    &Uuid::nil(),
                    &vec![i32::MIN],
                    &vec![0_i64],
                    &vec![i32::MAX],
                    &None::<Vec<String>>,
                    &2_i32,
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

    /// Returns the lease of the claimed jobs.
    fn lease(&mut self) -> Uuid {
        let asked = "SELECT lease_id FROM redrive.leases WHERE queue = $1";
        self.client.ask(asked, &[&self.queue.name()])
    }

    /// Runs the settle for the jobs of a lease, with their verdicts and causes, and these counts.
    fn settle(&mut self, lease: Uuid, verdicts: &[(&str, Option<&str>)], counts: &[Count]) {
        let asked =
            "SELECT array_agg(j.id ORDER BY j.id) FROM redrive.leases l, unnest(l.ids) j (id)
                     WHERE l.lease_id = $1";
        let held: Option<Vec<i64>> = self.client.ask(asked, &[&lease]);
        let jobs = held.unwrap_or_else(|| (1..).take(verdicts.len()).collect());
        let verdicts: Vec<_> = jobs
            .into_iter()
            .zip(verdicts)
            .map(|(job, (word, cause))| (job, *word, *cause))
            .collect();
        let settlement = Settlement {
            queue: self.queue.name(),
            lease,
            verdicts: &verdicts,
            delay_ms: 0,
            counts,
        };
        settlement.write(&mut self.client);
    }

    fn letters(&self) -> LetterFilter {
        LetterFilter::new().queue(self.queue.name())
    }

    fn redrive(&self) {
        let db = self.queue.database();
        let redriven = db.redrives(&self.letters());
        assert!(!redriven.redriven.is_empty());
    }

    fn dead_letter(&self, count: i64) {
        redrive_tests::letters(&self.queue, count);
    }

    fn captured(&self, position: &str) -> ForeignFailure {
        let name = self.queue.name();
        ForeignFailure::new(name, position, name, "event", b"{}").error("Broken", "m")
    }
}

fn no_rows(_: &mut Fixture) {}

fn reject(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::reject("broken").class("Broken"))
}

#[expect(clippy::unnecessary_wraps, reason = "every handler returns a result")]
fn succeed(_: &Job<Order>) -> Result<(), Failure> {
    Ok(())
}

/// Fails the first attempt and succeeds afterwards.
fn once(failure: fn() -> Failure) -> impl Fn(&Job<Order>) -> Result<(), Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Err(failure()),
        _ => Ok(()),
    }
}

/// Runs a case and returns what it changed, with `q` for its queue.
fn observe(fixture: &mut Fixture, case: &Case) -> Published {
    (case.given)(fixture);
    let before = published(&mut fixture.client);
    (case.change)(fixture);
    let after = published(&mut fixture.client);
    let name = fixture.queue.name();
    changed(&before, &after)
        .into_iter()
        // How many chores a worker runs depends on how long it runs.
        .filter(|(series, _)| !series.starts_with("redrive_chore_seconds"))
        .map(|(series, change)| (series.replace(name, "q"), change))
        .collect()
}

#[test]
fn every_change_is_counted_once_before_and_after_a_fold() {
    let (test, db) = TestDatabase::opened();
    let mut wrong = Vec::new();
    let cases = [ENQUEUE, ATTEMPTS, LEASES, LETTERS];
    for (number, case) in cases.into_iter().flatten().enumerate() {
        let mut fixture = Fixture {
            queue: Queue::new(&db, &format!("queue-{number}-of-a-test")).unwrap(),
            client: test.client(),
        };
        let changes = observe(&mut fixture, case);
        let expected: Published = case
            .changes
            .iter()
            .map(|(series, change)| (format!("redrive_{series}"), *change))
            .collect();
        if changes != expected {
            let missing = changed(&changes, &expected);
            wrong.push(format!("{}: {missing:#?} is missing", case.name));
        }
        let before = published(&mut fixture.client);
        no_drift(&db);
        fold(&mut fixture.client);
        let after = published(&mut fixture.client);
        let folded: Published = changed(&before, &after);
        if !folded.is_empty() {
            wrong.push(format!("{}: the fold changes {folded:#?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
