//! The end of a pause, its changes and their audit.

use super::*;

#[test]
fn a_pause_that_expires_resumes_the_queue_in_full() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let gate = Gate::new();
    pause(&queue, PauseEnd::After(HOUR));
    let ahead = paused(db, "orders").expect("the pause");
    assert_eq!(ahead.ends_at, Some(ahead.paused_at + HOUR));
    let worker = worker(&queue).slots(4).runs(gate.passing::<Order>());
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    informed(&test, &[&worker]);
    assert_eq!(gate.arrived(), 0);
    let aged = "UPDATE redrive.queue_pauses \
        SET paused_at = paused_at - interval '1 hour', ends_at = ends_at - interval '1 hour'";
    test.sql(aged);
    // Every reader sees the end, even before a worker does.
    assert_eq!(paused(db, "orders"), None);
    assert!(!queue.resume(&maria()).unwrap(), "it is over");
    informed(&test, &[&worker]);
    // All slots at once, not one probe.
    gate.wait_for(4);
    gate.open();
    drained(&queue);
    assert!(db.admin().breakers().unwrap().is_empty());
    stop(worker);
}

#[test]
fn a_worker_ends_a_pause_at_its_time_without_a_notification() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    let soon = SystemTime::now() + Duration::from_secs(1);
    pause(&queue, PauseEnd::At(soon));
    let worker = willing(&queue);
    drained(&queue);
    let over = test.count("queue_pauses WHERE ends_at <= clock_timestamp()");
    assert_eq!(over, 1, "no job started before the end");
    stop(worker);
}

#[test]
fn a_second_pause_continues_only_one_that_is_not_over() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let since = || paused(db, "orders").expect("the pause").paused_at;
    pause(&queue, PauseEnd::After(HOUR));
    let first = since();
    pause(&queue, PauseEnd::Resumed);
    assert_eq!(since(), first, "one pause");
    assert_eq!(paused(db, "orders").unwrap().ends_at, None);
    pause(&queue, PauseEnd::After(HOUR));
    let aged = "UPDATE redrive.queue_pauses SET paused_at = paused_at - interval '2 hours', ends_at = clock_timestamp()";
    test.sql(aged);
    pause(&queue, PauseEnd::After(HOUR));
    assert!(since() > first);
}

#[test]
fn an_end_that_cannot_be_is_rejected() {
    let (test, queue) = TestDatabase::with_orders();
    let (now, epoch) = (SystemTime::now(), SystemTime::UNIX_EPOCH);
    for (end, why) in [
        (PauseEnd::After(Duration::ZERO), "it must be positive"),
        (PauseEnd::After(Duration::MAX), "at most 3650 days"),
        (PauseEnd::After(3650 * 24 * HOUR + HOUR), "at most 3650"),
        (PauseEnd::At(now - HOUR), "in the past"),
        (PauseEnd::At(epoch), "in the past"),
        (PauseEnd::At(epoch - 180 * 24 * HOUR), "at 1969-"),
        (PauseEnd::At(now + 3651 * 24 * HOUR), "at most 3650 days"),
        (PauseEnd::At(now + 36_500 * 24 * HOUR), "at most 3650 days"),
        // No statement could express it.
        (PauseEnd::At(epoch + u32::MAX * HOUR), "at most 3650 days"),
    ] {
        let error = queue.pause(end, &maria()).expect_err(why);
        assert!(error.is_invalid(), "{end:?}: {error:?}");
        has(&error, "pause queue `orders`");
        has(format!("{end:?}: {error:#}"), why);
    }
    let mut client = test.client();
    client.refuses_each(
        "SELECT redrive.@",
        "pause_queue('orders', now() + interval '1 h', '1 h') -- not both
         pause_queue('orders', 'infinity') -- at most 3650 days
         pause_queue('')                   -- invalid queue name
         pause_queue(NULL)                 -- invalid queue name
         resume_queue(' orders')           -- invalid queue name",
    );
    assert_eq!(client.count("queue_pauses"), 0);
}
