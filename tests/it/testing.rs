//! The test kit: what a program enqueued, and what a handler decided and added.

use std::time::Duration;

use redrive::testing::{Decision, enqueued};
use redrive::{Failure, Job, NewJob, Outage, Queue, Rejection};
use redrive_tests::{Begin, Gate, Hold, Order, Sql, TestDatabase, worker};

#[test]
fn the_jobs_of_a_kind_are_listed_with_their_options_in_every_state() {
    let (test, db) = TestDatabase::opened();
    let queue = Queue::new(&db, "orders").unwrap();
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    let second = NewJob::new(&Order { number: 2 }).unwrap();
    let second = second.delay(Duration::from_mins(5)).priority(7);
    let second = second.max_attempts(2).unique("two").group("g");
    let second = second.header("trace", "t1");
    queue.enqueue_job_in(&mut tx, &second).unwrap();
    queue.enqueue_in(&mut tx, &Hold {}).unwrap();
    let jobs = enqueued::<Order>(&mut tx).unwrap();
    let [first, second] = &jobs[..] else {
        panic!("{jobs:?}")
    };
    assert_eq!((first.payload.number, &*first.queue), (1, "orders"));
    assert_eq!((first.max_attempts, first.priority), (5, 0));
    assert!(first.due_at.is_none() && first.unique_key.is_none() && first.headers.is_empty());
    assert_eq!((second.payload.number, second.priority), (2, 7));
    assert_eq!(second.max_attempts, 2);
    assert_eq!(second.unique_key.as_deref(), Some("two"));
    assert_eq!(second.group.as_deref(), Some("g"));
    assert_eq!(second.headers["trace"], "t1");
    assert!(second.due_at.is_some());
    tx.rollback().unwrap();
    assert!(enqueued::<Order>(&mut client).unwrap().is_empty());

    // A running one is live.
    let gate = Gate::new();
    queue.enqueue(&Hold {}).unwrap();
    let worker = worker(&queue).handle(gate.handler()).started();
    gate.wait_for(1);
    assert_eq!(enqueued::<Hold>(&mut client).unwrap().len(), 1);
    gate.open();
    redrive_tests::drained(&queue);
    redrive_tests::stop(worker);

    let raw = NewJob::raw("order", r#"{"number": "x"}"#).unwrap();
    let id = queue.enqueue_job(raw).unwrap().id();
    let error = enqueued::<Order>(&mut client).expect_err("no order");
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains(&format!("payload of job {id}")));
    client.sql("ALTER SCHEMA redrive RENAME TO away");
    let error = enqueued::<Order>(&mut client).expect_err("no schema");
    assert!(error.to_string().contains("kind `order`"), "{error}");
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
        assert_eq!(
            (failure.decision(), failure.error_class()),
            (decision, class)
        );
    }
    let job = Job::sample(Order { number: 6 }).queue("orders");
    handler(&job).unwrap();
    let added = job.follow_ups();
    assert_eq!(added[0].payload::<Order>().unwrap().number, 7);
    assert_eq!((added[0].queue(), added[0].kind()), ("orders", "order"));
    assert_eq!((added[1].queue(), added[1].kind()), ("mails", "mail"));
    let error = added[1].payload::<Order>().expect_err("a mail");
    assert!(
        error.to_string().contains("of kind `mail`, not `order`"),
        "{error}"
    );
    assert_eq!(job.follow_ups().len(), 2, "they stay");
}
