//! Schedules through a pooler.

use redrive_tests::prelude::*;

use super::PooledDatabase;

#[test]
fn a_schedule_ticks_behind_a_pooler_that_forwards_no_notification() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let worker = lively(&queue).runs(|_: &Job<Order>| Ok(()));
    shared.renews(2);
    let second = Schedule::every("second", Duration::from_secs(1)).unwrap();
    let second = second.job("orders", new_order(1));
    let schedules = queue.database().schedules();
    schedules.set(&second, &maria()).unwrap();
    counted(&worker, "two jobs", |counts| counts.done >= 2);
    stop(worker);
    assert!(schedules.history("second", 10).unwrap().len() >= 2);
    shared.nothing_is_left();
}
