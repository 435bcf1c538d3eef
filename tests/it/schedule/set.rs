//! Setting schedules, and what a change keeps.

use redrive_tests::prelude::*;

use super::{due_since, every, read, set, status};

fn cron(line: &str, zone: &str) -> Schedule {
    let cron = Schedule::cron("report", line).unwrap();
    cron.zone(zone).unwrap().job("orders", new_order(1))
}

#[test]
fn a_schedule_is_stored_as_it_was_set() {
    let (_test, db) = TestDatabase::opened();
    let job = new_order(1).priority(7).max_attempts(2).header("a", "b");
    let schedule = cron("0  8 * * MON-FRI", "europe/berlin").job("orders", job);
    let schedule = schedule.missed(Missed::All).overlap(Overlap::Skip);
    let preview = db.schedules().preview(&schedule, 5).unwrap();
    set(&db, &schedule);
    let stored = status(&db, "report");
    let job = stored.job.as_ref().expect("a job");
    assert_eq!(stored.cron.as_deref(), Some("0 8 * * MON-FRI"));
    assert_eq!(stored.zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(stored.every, None);
    assert_eq!((&*job.queue, &*job.kind), ("orders", "order"));
    assert_eq!(job.payload.get(), r#"{"number":1}"#);
    assert_eq!((job.priority, job.max_attempts), (7, 2));
    assert_eq!(job.headers.get("a").map(String::as_str), Some("b"));
    assert_eq!(stored.missed, Missed::All);
    assert_eq!(stored.overlap, Overlap::Skip);
    assert_eq!(stored.next_at, Some(preview[0]));
    assert!(preview.is_sorted() && preview.len() == 5 && preview[0] > SystemTime::now());
    assert_eq!(db.schedules().preview(&schedule, 5).unwrap(), preview);
    set(&db, &every("interval", Duration::from_micros(1_500_500)));
    let interval = status(&db, "interval").every;
    assert_eq!(interval, Some(Duration::from_millis(1501)));
    let all = db.schedules().list().unwrap();
    let names: Vec<&str> = all.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["interval", "report"]);
    assert!(db.schedules().get("unknown").unwrap().is_none());
}

#[test]
fn syncing_sets_the_own_schedules_and_keeps_the_others() {
    use ScheduleChange::{Changed, Created, Unchanged};
    let (_test, db, mut client) = TestDatabase::with_handle();
    let program = Operator::new("reports 1.4");
    set(&db, &every("foreign", HOUR));
    let ours = [every("a", HOUR), every("b", HOUR)];
    let sync = |schedules: &[Schedule]| db.schedules().sync(schedules, &program).unwrap();
    assert_eq!(sync(&ours), [Created, Created]);
    due_since(&mut client, "a", HOUR * 3);
    db.schedules().pause("b", &maria()).unwrap();
    let before = [read(&mut client, "a"), read(&mut client, "b")];
    // The next start of the program: nothing is written, and missed ticks are not lost.
    assert_eq!(sync(&ours), [Unchanged, Unchanged]);
    assert_eq!([read(&mut client, "a"), read(&mut client, "b")], before);
    let recorded = "audit WHERE verb = 'set_schedule' AND person = 'reports 1.4'";
    assert_eq!(client.count(recorded), 2);
    // Another payload keeps the next tick; another interval does not. A pause stays.
    let urgent = every("a", HOUR).job("orders", new_order(1).priority(1));
    assert_eq!(sync(&[urgent, every("b", HOUR * 2)]), [Changed, Changed]);
    let after = [read(&mut client, "a"), read(&mut client, "b")];
    assert_eq!(after[0], (before[0].0 + 1, before[0].1));
    assert!(after[1].1 > before[1].1 + HOUR / 2);
    assert!(status(&db, "b").paused_at.is_some());
    assert_eq!(sync(&[]), []);
    assert_eq!(db.schedules().list().unwrap().len(), 3);
    // One invalid schedule: none is set.
    let invalid = Schedule::every("no-job", HOUR).unwrap();
    let both = [every("c", HOUR), invalid];
    let error = db.schedules().sync(&both, &program).unwrap_err();
    has(&error, "no-job");
    assert!(error.is_invalid(), "{error}");
    assert!(db.schedules().get("c").unwrap().is_none());
}

#[test]
fn no_tick_runs_again_after_the_clock_went_back() {
    let (test, db) = TestDatabase::opened();
    set(&db, &cron("0 8 * * *", "UTC"));
    // The last tick lies ahead, as after a clock that went back by two days.
    test.sql("UPDATE redrive.schedules SET last_at = next_at + interval '2 days'");
    let last = status(&db, "report").last_at.unwrap();
    set(&db, &cron("30 8 * * *", "UTC"));
    assert_eq!(status(&db, "report").next_at, Some(last + HOUR / 2));
    // Neither does one that another process ran after its time was read.
    test.sql(
        "UPDATE redrive.schedules SET last_at = last_at + interval '1 hour';
         SELECT redrive.schedule('report', 'orders', 'order', '{}', cron => '45 8 * * *',
             next_at => last_at - interval '1 minute') FROM redrive.schedules",
    );
    assert_eq!(status(&db, "report").next_at, None);
}
