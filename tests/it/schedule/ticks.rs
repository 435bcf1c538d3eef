//! Each tick runs once, under races and failures.

use redrive_tests::prelude::*;

use super::{due_since, every, outcomes, read, set, tick, ticking};

#[test]
fn eight_processes_run_each_tick_once() {
    const ROUNDS: i64 = 20;
    let (test, db, mut client) = TestDatabase::with_handle();
    set(&db, &every("hourly", HOUR));
    due_since(&mut client, "hourly", HOUR * 30);
    let mut won = 0;
    for _ in 0..ROUNDS {
        let (version, due_at) = read(&mut client, "hourly");
        let tick = |mut client: Client| tick(&mut client, "hourly", version, due_at);
        let ticks = at_once(8, |_| test.client(), tick);
        won += ticks.into_iter().flatten().flatten().count();
    }
    assert_eq!(won, 20);
    assert_eq!(client.count("jobs"), ROUNDS);
    let distinct =
        "SELECT count(DISTINCT headers ->> 'redrive-scheduled-for') FROM redrive.live_jobs";
    assert_eq!(scalar(&mut client, distinct), ROUNDS);
}

#[test]
fn a_missed_tick_whose_job_has_expired_runs_nothing() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let job = new_order(1).expires_in(HOUR);
    let hourly = every("hourly", HOUR).missed(Missed::All);
    set(db, &hourly.job("orders", job));
    due_since(&mut client, "hourly", 3 * HOUR + HOUR / 2);
    let worker = ticking(&queue);
    client.reaches("dead_letters", 3);
    assert!(worker.drain(SOON).unwrap());
    stop(worker);
    assert_eq!(outcomes(db, "hourly"), [(TickOutcome::Fired, 1); 4]);
    assert_eq!(client.count("dead_letters WHERE cause = 'expired'"), 3);
}

#[test]
fn a_tick_that_was_planned_for_another_state_has_no_effect() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    set(&db, &every("hourly", HOUR));
    let (version, future) = read(&mut client, "hourly");
    // By the database's clock it is not due. The clock of the process does not count.
    assert_eq!(tick(&mut client, "hourly", version, future), None);
    due_since(&mut client, "hourly", HOUR / 2);
    let (_, due_at) = read(&mut client, "hourly");
    assert_eq!(tick(&mut client, "hourly", version, due_at - HOUR), None);
    assert_eq!(tick(&mut client, "hourly", version + 1, due_at), None);
    assert_eq!(tick(&mut client, "daily", version, due_at), None);
    db.schedules().pause("hourly", &maria()).unwrap();
    assert_eq!(tick(&mut client, "hourly", version, due_at), None);
    db.schedules().resume("hourly", &maria()).unwrap();
    assert!(tick(&mut client, "hourly", version, due_at).is_some());
    assert_eq!(tick(&mut client, "hourly", version, due_at), None);
    assert_eq!(client.count("jobs"), 1);
}

#[test]
fn a_job_knows_its_tick_before_and_after_a_redrive() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    set(queue.database(), &every("hourly", HOUR));
    due_since(&mut client, "hourly", HOUR / 2);
    let (_, due_at) = read(&mut client, "hourly");
    let (tells, told) = mpsc::channel();
    let worker = lively(&queue).runs(move |job: &Job<Order>| {
        let schedule = job.schedule().map(str::to_owned);
        tells.send((job.scheduled_for(), schedule)).unwrap();
        match job.generation() {
            0 => Err(Failure::reject("broken")),
            _ => Ok(()),
        }
    });
    died(&worker, 1);
    queue.redrives(&of_orders());
    done(&worker, 1);
    stop(worker);
    let tick = (Some(due_at), Some("hourly".to_owned()));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [tick.clone(), tick]);
}
