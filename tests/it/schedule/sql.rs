//! Schedules set from SQL: a worker reads their cron lines.

use redrive_tests::prelude::*;

use super::{history, status, ticking};

#[test]
fn sql_sets_an_interval_without_a_worker() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let mut schedule = |sql: &str| -> String { client.ask(sql, &[]) };
    let set = "SELECT redrive.schedule('clean', 'orders', 'order', '{\"number\": 1}', every => '1 hour', missed => 'all')";
    assert_eq!(schedule(set), "created");
    assert_eq!(schedule(set), "unchanged");
    let stored = status(&db, "clean");
    assert_eq!((stored.every, stored.missed), (Some(HOUR), Missed::All));
    let next = stored.next_at.unwrap();
    assert!(next > SystemTime::now() + HOUR / 2 && next < SystemTime::now() + HOUR * 2);
    assert_eq!(schedule(&set.replace("'all'", "'skip'")), "changed");
    assert_eq!(status(&db, "clean").next_at, Some(next));
}

#[test]
fn a_worker_reads_the_cron_line_of_a_schedule_from_sql() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let set = |client: &mut Client, name: &str, line: &str| {
        client.change("SELECT redrive.schedule($1, 'orders', 'order', '{\"number\": 1}', cron => $2, zone => 'Europe/Berlin')", &[&name, &line]);
    };
    set(&mut client, "report", "0 8 * * *");
    assert_eq!(status(db, "report").next_at, None);
    let worker = ticking(&queue);
    let next = || status(db, "report").next_at;
    wait_until("the next tick", SOON, || next().is_some());
    assert!(next().unwrap() > SystemTime::now());
    // PostgreSQL cannot find the mistake; the worker stores it.
    set(&mut client, "wrong", "0 25 * * *");
    wait_until("the mistake", SOON, || {
        status(db, "wrong").last_trouble.is_some()
    });
    let trouble = status(db, "wrong").last_trouble.unwrap();
    has(&trouble, "at character 3: `25` is not a valid hour");
    // Corrected, it starts at once, and counts from the correction.
    set(&mut client, "wrong", "* * * * * *");
    wait_until("its first tick", SOON, || !history(db, "wrong").is_empty());
    assert_eq!(status(db, "wrong").last_trouble, None);
    stop(worker);
}

#[test]
fn a_schedule_of_jobs_and_a_policy_do_not_replace_each_other() {
    let (_test, mut client) = TestDatabase::with_client();
    let jobs = |name: &str| {
        format!("SELECT redrive.schedule('{name}', 'orders', 'order', '{{}}', every => '1 hour')")
    };
    let letters = |name: &str| format!("SELECT redrive.set_policy('{name}', '{{}}', '1 hour')");
    client.sql(&jobs("jobs"));
    client.sql(&letters("letters"));
    client.refuses(&jobs("letters"), &[], "'letters' is a policy");
    client.refuses(&letters("jobs"), &[], "'jobs' is a schedule");
}

#[test]
fn sql_rejects_what_it_can_check() {
    let (_test, mut client) = TestDatabase::with_client();
    client.refuses_each(
        "SELECT redrive.schedule('s', 'q', 'k', '{}'@)",
        r#"                                             -- either a cron line or an interval
           , cron => '0 8 * * *', every => '1 h'        -- either a cron line or an interval
           , every => '999 ms'                          -- an interval of 1 second to 366 days
           , every => '1 month'                         -- without months and years
           , every => '1 h', zone => 'UTC'              -- no time zone for an interval
           , cron => '0 8 * *'                          -- five fields
           , cron => '0 8 * * * * *'                    -- five fields
           , cron => '0 8 * * *', zone => 'Europe/Berln' -- not 'Europe/Berln'
           , cron => '0 8 * *', next_at => now()        -- five fields
           , every => '1 month', next_at => now()       -- without months and years
           , every => '1 h', priority => 1001           -- a priority between
           , every => '1 h', max_attempts => 0          -- 1 to 1000 attempts
           , every => '1 h', headers => '[]'            -- a JSON object
           , every => '1 h', headers => '{"redrive-x": "1"}' -- starts with redrive-
           , every => '1 h', missed => 'twice'          -- skip, once or all
           , every => '1 h', overlap => 'both'          -- allow or skip"#,
    );
    for name in ["NULL", "''", "' x'"] {
        let call = format!("SELECT redrive.schedule({name}, 'q', 'k', '{{}}', every => '1 h')");
        assert!(client.execute(&call, &[]).is_err(), "{call}");
    }
}
