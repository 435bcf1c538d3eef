//! Schedules: how late they are, and whether their jobs die.

use redrive_tests::prelude::*;

use super::{about, reading};

#[test]
fn the_lag_of_a_schedule_counts_from_its_next_tick_unless_it_is_paused() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("SELECT redrive.schedule(n, 'orders', 'order', '{}', every => '1 hour')
             FROM unnest('{late,early,paused}'::text[]) n;
             SELECT redrive.schedule('unread', 'orders', 'order', '{}', cron => '@daily');
             SELECT redrive.pause_schedule('paused');
             UPDATE redrive.schedules SET next_at = now() - interval '1000 seconds' WHERE name IN ('late', 'paused');
             UPDATE redrive.schedules SET changed_at = now() - interval '2000 seconds' WHERE name = 'unread'");
    let read = reading(&mut client);
    about(&read, "schedule_lag_seconds{late}", 1000.0);
    about(&read, "schedule_lag_seconds{unread}", 2000.0);
    says(&read, "schedule_lag_seconds{early}", 0.0);
    says(&read, "schedule_lag_seconds{paused}", 0.0);
    // The names are bounded; the others share the largest value.
    client.sql("SELECT redrive.schedule('more ' || n, 'orders', 'order', '{}', every => '1 hour') FROM generate_series(1, 98) n;
             UPDATE redrive.schedules SET next_at = now() - interval '3000 seconds' WHERE name = 'more 98'");
    let read = reading(&mut client);
    says(&read, "schedule_lag_seconds{more 96}", 0.0);
    about(&read, "schedule_lag_seconds{__other__}", 3000.0);
    assert_eq!(series(&read, "schedule_lag_seconds{more 98}"), None);
}

#[test]
fn the_deaths_in_a_row_count_from_the_latest_job_that_has_ended() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let (schedules, operator) = (queue.database().schedules(), Operator::default());
    let hourly = Schedule::every("hourly", Duration::from_hours(1)).unwrap();
    let hourly = hourly.job("orders", new_order(1));
    schedules.set(&hourly, &operator).unwrap();
    let trigger = || {
        let triggered = schedules.trigger("hourly", &operator).unwrap();
        assert!(matches!(triggered, Triggered::New(_)), "{triggered:?}");
    };
    let mut deaths = |expected: f64| {
        says(&reading(&mut client), "schedule_deaths{hourly}", expected);
    };
    deaths(0.0);
    for expected in [1.0, 2.0, 0.0, 1.0, 2.0] {
        trigger();
        work_off(&queue, move |_: &Job<Order>| match expected > 0.0 {
            true => Err(Failure::reject("broken")),
            false => Ok(()),
        });
        deaths(expected);
    }
    // A live job has not ended.
    trigger();
    deaths(2.0);
    // So is the job of a redriven letter; the letter before it still counts.
    let latest = "SELECT max(id) FROM redrive.dead_letters";
    let latest = scalar(&mut test.client(), latest);
    queue.redrives(&only(JobId::new(latest)));
    deaths(1.0);
}
