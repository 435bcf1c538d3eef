//! Workers learn about changes, and an error stops no other schedule.

use redrive_tests::prelude::*;

use super::{due_since, every, history, set, status, ticking};

#[test]
fn a_worker_is_notified_of_a_new_schedule() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    // It looks for chores every 10 seconds, so only the notification lets it see the second tick in time.
    let worker = worker(&queue).lease(Duration::from_mins(1));
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    set(db, &every("second", Duration::from_secs(1)));
    counted(&worker, "three jobs", |counts| counts.done >= 3);
    stop(worker);
    let entries = history(db, "second");
    for pair in entries.windows(2) {
        let between = pair[0].tick_at.duration_since(pair[1].tick_at).unwrap();
        assert_eq!(between.subsec_nanos(), 0, "the ticks keep their rhythm");
    }
}

#[test]
fn a_schedule_that_fails_stops_no_other() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let policy = Policy::new(LetterFilter::new());
    let redriving = Schedule::every("e", HOUR).unwrap().redrive(policy);
    let jobs = ["a", "b", "c", "d"].map(|name| (name, every(name, HOUR)));
    for (name, schedule) in jobs.into_iter().chain([("e", redriving)]) {
        set(db, &schedule);
        due_since(&mut client, name, HOUR / 2);
    }
    client.sql("UPDATE redrive.schedules SET cron = '0 0 30 2 *', zone = 'UTC', every = NULL WHERE name = 'a';
             -- This line has no tick in the last half hour, at any time of day.
             UPDATE redrive.schedules SET cron = '0 0 29 2 *', zone = 'Europe/Atlantis', every = NULL WHERE name = 'b';
             UPDATE redrive.schedules SET policy = jsonb_set(policy, '{letters}', '{\"died_from\": \"nonsense\"}')
             WHERE name = 'e'");
    let refuse = "IF NEW.schedule = 'c' THEN \
                      RAISE EXCEPTION 'refused for a test' USING ERRCODE = 'query_canceled'; END IF";
    test.before("INSERT ON redrive.schedule_ticks", refuse);
    let worker = ticking(&queue);
    wait_until("the last schedule", SOON, || history(db, "d").len() == 1);
    let trouble = |name| status(db, name).last_trouble.unwrap_or_default();
    let failing = ["a", "b", "c", "e"];
    wait_until("the errors", SOON, || {
        failing.iter().all(|name| !trouble(name).is_empty())
    });
    has(trouble("e"), "nonsense");
    has(trouble("a"), "no next time");
    has(trouble("b"), "`Europe/Atlantis` is unknown");
    has(trouble("c"), "refused for a test");
    assert_eq!(worker.failure(), None);
    assert_eq!(client.count("schedule_ticks"), 1);
    let soon = "schedules WHERE retry_at <= clock_timestamp() + interval '1 minute'";
    assert_eq!(client.count(soon), 4, "they are tried again");
    let script = "DROP TRIGGER for_test ON redrive.schedule_ticks;
                  UPDATE redrive.schedules SET retry_at = clock_timestamp();
                  UPDATE redrive.schedules SET zone = 'Europe/Berlin' WHERE name = 'b'";
    client.sql(script);
    wait_until("the schedules to recover", SOON, || {
        ["b", "c"].iter().all(|name| history(db, name).len() == 1)
    });
    assert_eq!(status(db, "c").last_trouble, None);
    stop(worker);
}
