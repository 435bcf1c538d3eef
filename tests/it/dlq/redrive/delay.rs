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
    let (test, queue, ids) = TestDatabase::with_letters(6);
    let later = RedriveOptions::new().delay(HOUR);
    queue.redrives_with(&only(ids[0]), &later);
    assert_eq!(in_an_hour(&test), 1);
    test.sql("SELECT redrive.redrive('{}', max_letters => 1, delay => '1 hour')");
    assert_eq!(in_an_hour(&test), 2);
    test.run("dlq redrive orders --delay 1h --limit 1 --yes");
    assert_eq!(in_an_hour(&test), 3);
    test.run("dlq runs show 1").shows("delay            1h");
    let options = RunOptions::new().letters(later);
    let run = queue.drives(&LetterFilter::new(), &options);
    assert_eq!((run.delay, run.still_running), (Some(HOUR), 3));
    assert_eq!(in_an_hour(&test), 6);

    let due = "UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 second'";
    test.sql(due);
    finish(&queue, willing(&queue));
    assert_eq!(in_state(&queue, LetterState::Recovered), 6);
}
