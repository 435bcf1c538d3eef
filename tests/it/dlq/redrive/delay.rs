//! Redriven jobs that become ready after a delay.

use std::time::Duration;

use redrive::dlq::runs::{DriveStatus, RunOptions};
use redrive::dlq::{LetterFilter, LetterState, RedriveOptions};
use redrive::{Job, Operator};
use redrive_tests::{
    Order, SOON, TestDatabase, drained, letters, letters_in, ran, stats, stop, wait_until, worker,
};

const HOUR: Duration = Duration::from_hours(1);

/// Returns how many jobs become ready in about an hour.
fn in_an_hour(test: &TestDatabase) -> i64 {
    let asked = "SELECT count(*) FROM redrive.jobs_delayed \
                 WHERE run_at - now() BETWEEN interval '55 minutes' AND interval '1 hour'";
    test.client().query_one(asked, &[]).unwrap().get(0)
}

#[test]
fn redriven_letters_become_ready_after_the_delay() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 4);
    let db = queue.database();
    let later = RedriveOptions::new().delay(HOUR);
    let one = LetterFilter::new().ids([ids[0]]);
    let done = db
        .dlq()
        .redrive_with(&one, &later, &Operator::default())
        .unwrap();
    assert_eq!((done.redriven.len(), in_an_hour(&test)), (1, 1));

    let options = RunOptions::new().letters(later);
    let (run, mut driver) = db
        .dlq()
        .runs()
        .start(&LetterFilter::new(), &options, &Operator::default())
        .unwrap()
        .expect("letters");
    wait_until("the letters to be sent", SOON, || {
        driver.step().unwrap().status != DriveStatus::Running
    });
    assert_eq!(in_an_hour(&test), 4);
    let run = db.dlq().runs().get(run.id).unwrap().expect("the run");
    assert_eq!((run.delay, run.still_running), (Some(HOUR), 3));

    let due = "UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 second'";
    test.client().execute(due, &[]).unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 4);
}

#[test]
fn the_command_line_and_sql_accept_a_delay() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3);
    let delayed = ["dlq", "redrive", "orders", "--delay", "1h", "--limit", "1"];
    let dry = ran(&test, &delayed).exits_with(0);
    assert!(dry.out.contains("--delay 1h"), "{}", dry.out);
    ran(&test, &[&delayed[..], &["--yes"]].concat()).exits_with(0);
    assert_eq!(in_an_hour(&test), 1);
    let shown = ran(&test, &["dlq", "runs", "show", "1"]).exits_with(0);
    assert!(shown.out.contains("delay            1h"), "{}", shown.out);
    let sql =
        "SELECT redrive.redrive('{\"queue\": \"orders\"}', max_letters => 1, delay => '1 hour')";
    test.client().batch_execute(sql).unwrap();
    assert_eq!(in_an_hour(&test), 2);
    ran(&test, &["dlq", "redrive", "orders", "--yes"]).exits_with(0);
    assert_eq!(stats(queue.database(), "orders").unwrap().ready, 1);
}

#[test]
fn a_delay_of_over_ten_years_is_rejected() {
    let test = TestDatabase::migrated();
    letters(&test.queue("orders"), 1);
    let error = test
        .open()
        .dlq()
        .redrive_with(
            &LetterFilter::new(),
            &RedriveOptions::new().delay(Duration::from_hours(100_000)),
            &Operator::default(),
        )
        .expect_err("a delay that is too long");
    assert!(error.to_string().contains("ten years"), "{error}");
    let sql = "SELECT redrive.redrive('{}', delay => '11 years')";
    let error = test.client().batch_execute(sql).unwrap_err();
    let message = error.as_db_error().expect("an answer").message().to_owned();
    assert!(message.contains("ten years"), "{message}");
}
