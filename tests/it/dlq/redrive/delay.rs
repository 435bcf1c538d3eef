//! Redriven jobs that become ready after a delay.

use redrive_tests::prelude::*;

/// Returns how many jobs become ready in about an hour.
fn in_an_hour(test: &TestDatabase) -> i64 {
    let asked = "SELECT count(*) FROM redrive.jobs_delayed \
                 WHERE run_at - now() BETWEEN interval '55 minutes' AND interval '1 hour'";
    test.client().ask(asked, &[])
}

#[test]
fn redriven_letters_become_ready_after_the_delay() {
    let (test, queue, ids) = TestDatabase::with_letters(4);
    let db = queue.database();
    let later = RedriveOptions::new().delay(HOUR);
    let one = only(ids[0]);
    let done = db.redrives_with(&one, &later);
    assert_eq!((done.redriven.len(), in_an_hour(&test)), (1, 1));

    let options = RunOptions::new().letters(later);
    let run = db.drives(&LetterFilter::new(), &options);
    assert_eq!(in_an_hour(&test), 4);
    assert_eq!((run.delay, run.still_running), (Some(HOUR), 3));

    let due = "UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 second'";
    test.sql(due);
    finish(&queue, willing(&queue));
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 4);
}

#[test]
fn the_command_line_and_sql_accept_a_delay() {
    let (test, queue, _) = TestDatabase::with_letters(3);
    let delayed = "dlq redrive orders --delay 1h --limit 1";
    test.run(delayed).shows("add --yes");
    test.run(format!("{delayed} --yes"));
    assert_eq!(in_an_hour(&test), 1);
    test.run("dlq runs show 1").shows("delay            1h");
    let sql =
        "SELECT redrive.redrive('{\"queue\": \"orders\"}', max_letters => 1, delay => '1 hour')";
    test.sql(sql);
    assert_eq!(in_an_hour(&test), 2);
    test.run("dlq redrive orders --yes");
    assert_eq!(stats(queue.database(), "orders").unwrap().ready, 1);
}
