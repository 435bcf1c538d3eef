//! The test kit: what a program enqueued, and what a handler decided and added.

mod database;

use redrive::testing::{Decision, drain_in, enqueued, run_next, travel};
use redrive::worker::{Attempt, AttemptOutcome};
use redrive::{Outage, Rejection};
use redrive_tests::prelude::*;

#[test]
fn the_jobs_of_a_kind_are_listed_with_their_options_in_every_state() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let queue = Queue::new(&db, "orders").unwrap();
    let mut tx = client.transaction().unwrap();
    queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    let second = new_order(2).delay(HOUR).priority(7);
    let second = second.max_attempts(2).unique("two").group("g");
    let second = second.header("trace", "t1");
    queue.enqueue_job_in(&mut tx, &second).unwrap();
    queue.enqueue_in(&mut tx, &Hold {}).unwrap();
    let jobs = enqueued::<Order>(&mut tx).unwrap();
    let [first, second] = &jobs[..] else {
        panic!("{jobs:?}")
    };
    assert_eq!((first.payload.number, second.payload.number), (1, 2));
    let (first, second) = (&first.job, &second.job);
    assert_eq!((&*first.queue, first.state), ("orders", JobState::Ready));
    assert_eq!((first.max_attempts, first.priority), (5, 0));
    assert!(first.unique_key.is_none() && first.headers.is_empty());
    let options = (second.state, second.priority, second.max_attempts);
    assert_eq!(options, (JobState::Delayed, 7, 2));
    assert_eq!(second.unique_key.as_deref(), Some("two"));
    assert_eq!(second.group_key.as_deref(), Some("g"));
    assert_eq!(second.headers["trace"], "t1");
    tx.rollback().unwrap();
    assert!(enqueued::<Order>(&mut client).unwrap().is_empty());

    // A running one is live.
    let (gate, worker, _) = running(&queue);
    assert_eq!(enqueued::<Hold>(&mut client).unwrap().len(), 1);
    gate.open();
    finish(&queue, worker);

    let raw = NewJob::raw("order", r#"{"number": "x"}"#).unwrap();
    let id = put(&queue, raw);
    let error = enqueued::<Order>(&mut client).expect_err("no order");
    assert!(error.is_invalid(), "{error}");
    has(error, format!("payload of job {id}"));
    client.sql("ALTER SCHEMA redrive RENAME TO away");
    let error = enqueued::<Order>(&mut client).expect_err("no schema");
    has(&error, "kind `order`");
}

#[test]
fn a_sample_shows_what_its_handler_decided_and_added() {
    let handler = |job: &Job<Order>| -> Result<(), Failure> {
        match job.payload().number {
            1 => Err(Failure::retry("busy").after(Duration::from_secs(9))),
            2 => Err(Rejection::new("never"))?,
            3 => Err(Outage::new("away"))?,
            4 => Err(Failure::snooze(Duration::from_secs(1))),
            5 => Err("x".parse::<i64>().expect_err("no number"))?,
            _ => {
                job.then(NewJob::new(&Order { number: 7 })?)?;
                job.then_in_queue("mails", NewJob::raw("mail", "{}")?)?;
                Ok(())
            }
        }
    };
    for (number, decision, class) in [
        (1, Decision::RetryAfter(Duration::from_secs(9)), "Retry"),
        (2, Decision::Reject, "Rejected"),
        (3, Decision::Outage, "Outage"),
        (4, Decision::Snooze(Duration::from_secs(1)), "Snoozed"),
        (5, Decision::Retry, "core::num::error::ParseIntError"),
    ] {
        let failure = handler(&Job::sample(Order { number })).expect_err("a failure");
        assert_eq!(failure.decision(), decision);
        assert_eq!(failure.error_class(), class);
    }
    let job = Job::sample(Order { number: 6 }).queue("orders");
    handler(&job).unwrap();
    let added = job.follow_ups();
    assert_eq!(added[0].payload::<Order>().unwrap().number, 7);
    assert_eq!((added[0].queue(), added[0].kind()), ("orders", "order"));
    assert_eq!((added[1].queue(), added[1].kind()), ("mails", "mail"));
    let error = added[1].payload::<Order>().expect_err("a mail");
    has(&error, "of kind `mail`, not `order`");
    assert_eq!(job.follow_ups().len(), 2, "they stay");
}

fn outcomes(ran: &[Attempt]) -> Vec<AttemptOutcome> {
    ran.iter().map(|ran| ran.outcome).collect()
}

fn ends(ran: &[Attempt]) -> Vec<(&str, u32, AttemptOutcome)> {
    let ends = ran.iter().map(|ran| (&*ran.kind, ran.number, ran.outcome));
    ends.collect()
}

#[test]
fn jobs_run_in_a_transaction_until_they_are_done_or_dead_and_leave_nothing() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    client.sql("CREATE TABLE receipts (number bigint NOT NULL CHECK (number <> 2))");
    let order = |job: &Job<Order>| match (job.payload().number, job.attempt()) {
        (1, 1) => Err(Failure::retry("busy")),
        (2, _) => Err(Failure::reject("never")),
        _ => Ok(job.then(NewJob::new(&Hold {})?)?),
    };
    let later = HandlerOptions::new().backoff(Backoff::fixed(Duration::from_mins(10)));
    let handlers = Handlers::new().handle(order).options(later);
    let handlers = handlers.handle(|_: &Job<Hold>, tx: &mut Transaction<'_>| {
        tx.execute("INSERT INTO receipts VALUES (1)", &[])?;
        Ok(())
    });
    let mut tx = client.transaction().unwrap();
    for number in [1, 2] {
        queue.enqueue_in(&mut tx, &Order { number }).unwrap();
    }
    let ran = drain_in(&mut tx, &handlers).unwrap();
    let (retried, dead) = (AttemptOutcome::Retried, AttemptOutcome::Dead);
    assert_eq!(ends(&ran), [("order", 1, retried), ("order", 1, dead)]);
    assert_eq!(ran[1].error_message.as_deref(), Some("never"));
    assert_eq!(tx.count("dead_letters WHERE error_message = 'never'"), 1);

    travel(&mut tx, Duration::from_secs(599)).unwrap();
    assert!(run_next(&mut tx, &handlers).unwrap().is_none(), "not due");
    travel(&mut tx, Duration::from_secs(2)).unwrap();
    let ran = drain_in(&mut tx, &handlers).unwrap();
    let done = AttemptOutcome::Done;
    assert_eq!(ends(&ran), [("order", 2, done), ("hold", 1, done)]);
    assert_eq!(scalar(&mut tx, "SELECT count(*) FROM receipts"), 1);
    assert_eq!(tx.count("leases"), 0);
    tx.rollback().unwrap();
    for table in ["redrive.live_jobs", "redrive.dead_letters", "receipts"] {
        let left = scalar(&mut client, &format!("SELECT count(*) FROM {table}"));
        assert_eq!(left, 0, "{table}");
    }
}

#[test]
fn what_a_failed_handler_wrote_in_the_transaction_of_a_test_is_undone() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    client.sql(
        "CREATE TABLE numbers (number bigint PRIMARY KEY); INSERT INTO numbers VALUES (11), (12), (13), (14), (16), (17); \
         CREATE TABLE receipts (number bigint NOT NULL CHECK (number <> 2) \
                                    REFERENCES numbers DEFERRABLE INITIALLY DEFERRED)",
    );
    let handlers = Handlers::new().handle(|job: &Job<Order>, tx: &mut Transaction<'_>| {
        let number = job.payload().number;
        tx.execute("INSERT INTO receipts VALUES ($1::bigint + 10)", &[&number])?;
        match number {
            1 => tx.execute("INSERT INTO receipts VALUES (2)", &[])?,
            // Its error is ignored.
            2 => tx
                .execute("INSERT INTO receipts VALUES (2)", &[])
                .unwrap_or(0),
            3 => panic!("three"),
            6 => tx.execute("SET TRANSACTION READ ONLY", &[])?,
            _ => 0,
        };
        Ok(())
    });
    let mut tx = client.transaction().unwrap();
    for number in 1..=7 {
        let job = new_order(number).max_attempts(1);
        queue.enqueue_job_in(&mut tx, &job).unwrap();
    }
    let ran = drain_in(&mut tx, &handlers).unwrap();
    let (dead, done) = (AttemptOutcome::Dead, AttemptOutcome::Done);
    assert_eq!(outcomes(&ran), [dead, dead, dead, done, dead, dead, done]);
    let class = |at: usize| ran[at].error_class.as_deref();
    assert_eq!(class(1), Some("SQLSTATE 25P02"), "as in a worker");
    assert_eq!(class(2), Some("panic"));
    assert_eq!(class(4), Some("SQLSTATE 23503"));
    assert_eq!(class(5), Some("SQLSTATE 25006"));
    let sum = "SELECT sum(number)::bigint FROM receipts";
    assert_eq!(scalar(&mut tx, sum), 14 + 17);
    tx.commit().unwrap();
    assert_eq!(client.count("dead_letters"), 5, "as committed");
}

#[test]
fn a_handler_that_ends_the_transaction_of_a_test_is_an_error() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let commit = |_: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        Ok(tx.batch_execute("COMMIT")?)
    };
    let mut tx = client.transaction().unwrap();
    queue.enqueue_job_in(&mut tx, new_order(1)).unwrap();
    let error = drain_in(&mut tx, &Handlers::new().handle(commit)).unwrap_err();
    has(error, "ended its transaction");
}

#[test]
fn groups_batches_and_priorities_are_those_of_a_worker() {
    let (test, queue) = TestDatabase::with_orders();
    let policy = GroupPolicy::Ordered(GroupDeath::Hold);
    queue.set_group_policy(policy, &maria()).unwrap();
    let orders = |batch: &Batch<Order>| {
        for job in batch.jobs().iter().filter(|job| job.payload().number == 1) {
            job.fail(Failure::reject("one"));
        }
        Ok(())
    };
    let handlers = Handlers::new().handle_batch(BatchOptions::new(10), orders);
    let handlers = handlers.handle_any(|_| Ok(()));
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    let urgent = NewJob::raw("urgent", "{}").unwrap().priority(9);
    let grouped = |(number, group): (i64, &str)| new_order(number).group(group);
    let grouped = [(1, "g"), (2, "g"), (3, "h")].map(grouped);
    for job in grouped.iter().chain([&urgent]) {
        queue.enqueue_job_in(&mut tx, job).unwrap();
    }
    let ran = drain_in(&mut tx, &handlers).unwrap();
    let (done, dead) = (AttemptOutcome::Done, AttemptOutcome::Dead);
    assert_eq!(ran.len(), 3, "the letter holds its group: {ran:#?}");
    assert_eq!((&*ran[0].kind, ran[0].outcome), ("urgent", done));
    let mut outcomes = [ran[1].outcome, ran[2].outcome];
    outcomes.sort_unstable_by_key(|outcome| *outcome == done);
    assert_eq!(outcomes, [dead, done]);
}
