//! Redriven jobs that become ready after a delay.

use std::time::Duration;

use redrive::Operator;
use redrive::dlq::runs::{DriveStatus, RunOptions};
use redrive::dlq::{LetterFilter, LetterState, RedriveOptions};
use redrive_tests::{
    SOON, Sql, TestDatabase, finish, letters, letters_in, ran, stats, wait_until, willing,
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
    let (test, queue) = TestDatabase::with_orders();
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
    test.client().sql(due);
    let worker = willing(&queue);
    finish(&queue, worker);
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 4);
}

#[test]
fn the_command_line_and_sql_accept_a_delay() {
    let (test, queue) = TestDatabase::with_orders();
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
    test.client().sql(sql);
    assert_eq!(in_an_hour(&test), 2);
    ran(&test, &["dlq", "redrive", "orders", "--yes"]).exits_with(0);
    assert_eq!(stats(queue.database(), "orders").unwrap().ready, 1);
}
