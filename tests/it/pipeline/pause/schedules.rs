//! Schedules of a paused queue.

use super::*;

#[test]
fn the_schedules_of_a_paused_queue_tick_and_their_jobs_wait() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let runs = Ledger::default();
    let hourly = Schedule::every("hourly", HOUR).unwrap();
    let hourly = hourly.job("orders", new_order(1));
    db.schedules().set(&hourly, &maria()).unwrap();
    pause(&queue, PauseEnd::Resumed);
    let worker = runs.worker(&queue);
    let ready = || stats(db, "orders").map_or(0, |stats| stats.ready);
    for tick in 1..=3 {
        // Each later than the one before.
        let ago = format!("{} minutes", 10 - tick);
        let due = format!(
            "UPDATE redrive.schedules
             SET next_at = date_trunc('second', clock_timestamp()) - interval '{ago}';
             NOTIFY redrive_schedule"
        );
        test.sql(&due);
        wait_until("the job of the tick", SOON, || ready() == tick);
    }
    informed(&test, &[&worker]);
    assert_eq!((ready(), runs.count()), (3, 0));
    runs.allow();
    resume(&queue);
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 3);
}
