//! The end of a pause, its changes and their audit.

use std::time::SystemTime;

use super::*;
use redrive_tests::{Begin, Sql, has, scalar};

#[test]
fn a_pause_that_expires_resumes_the_queue_in_full() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let gate = Gate::new();
    pause(&queue, PauseEnd::After(HOUR));
    let ahead = paused(db, "orders").map(|pause| (pause.paused_at, pause.ends_at));
    let (paused_at, ends_at) = ahead.expect("the pause");
    assert_eq!(
        ends_at.expect("an end").duration_since(paused_at).unwrap(),
        HOUR
    );
    let worker = worker(&queue).slots(4).runs(gate.passing::<Order>());
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    informed(&test, &[&worker]);
    assert_eq!(gate.arrived(), 0);
    let aged = "UPDATE redrive.queue_pauses \
        SET paused_at = paused_at - interval '1 hour', ends_at = ends_at - interval '1 hour'";
    test.client().sql(aged);
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
    let runs = Ledger::default();
    runs.allow();
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    let soon = SystemTime::now() + Duration::from_secs(1);
    pause(&queue, PauseEnd::At(soon));
    let worker = runs.worker(&queue);
    drained(&queue);
    let over: bool = test.client().ask(
        "SELECT ends_at <= clock_timestamp() FROM redrive.queue_pauses",
        &[],
    );
    assert!(over, "no job started before the end");
    stop(worker);
}

#[test]
fn a_second_pause_replaces_the_end_and_the_reason() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    pause(&queue, PauseEnd::After(HOUR));
    let first = paused(db, "orders").expect("the pause");
    let jan = Operator::new("jan@ops-2").reason("it takes longer");
    queue.pause(PauseEnd::Resumed, &jan).unwrap();
    let second = paused(db, "orders").expect("the pause");
    assert_eq!(second.paused_at, first.paused_at, "one pause");
    assert_eq!(second.ends_at, None);
    assert_eq!(
        (second.person.as_deref(), second.reason.as_deref()),
        (Some("jan@ops-2"), Some("it takes longer"))
    );
    resume(&queue);
    assert_eq!(paused(db, "orders"), None);
    // One that is over is not continued.
    pause(&queue, PauseEnd::After(HOUR));
    let aged = "UPDATE redrive.queue_pauses SET paused_at = paused_at - interval '2 hours', ends_at = clock_timestamp()";
    test.client().sql(aged);
    pause(&queue, PauseEnd::After(HOUR));
    let third = paused(db, "orders").expect("the pause");
    assert!(third.paused_at > first.paused_at);

    let asked = "SELECT verb, person, reason, about ->> 'queue', about ->> 'ends_at' IS NOT NULL \
        FROM redrive.audit ORDER BY id";
    let rows = test.client().query(asked, &[]).unwrap();
    let acts: Vec<(String, String, String, String, bool)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)))
        .collect();
    let act = |verb: &str, has_end| {
        let [maria, why, queue] = ["maria@ops-1", "an upgrade", "orders"].map(str::to_owned);
        (verb.to_owned(), maria, why, queue, has_end)
    };
    let jan = |verb: &str| {
        let [jan, why, queue] = ["jan@ops-2", "it takes longer", "orders"].map(str::to_owned);
        (verb.to_owned(), jan, why, queue, false)
    };
    assert_eq!(
        acts,
        [
            act("pause_queue", true),
            jan("pause_queue"),
            act("resume_queue", false),
            act("pause_queue", true),
            act("pause_queue", true),
        ]
    );
}

#[test]
fn an_end_that_cannot_be_is_rejected() {
    let (test, queue) = TestDatabase::with_orders();
    let now = SystemTime::now();
    for (end, why) in [
        (PauseEnd::After(Duration::ZERO), "it must be positive"),
        (PauseEnd::After(Duration::MAX), "at most 3650 days"),
        (
            PauseEnd::After(3650 * 24 * HOUR + HOUR),
            "at most 3650 days",
        ),
        (PauseEnd::At(now - HOUR), "in the past"),
        (PauseEnd::At(SystemTime::UNIX_EPOCH), "in the past"),
        (PauseEnd::At(now + 3651 * 24 * HOUR), "at most 3650 days"),
        (PauseEnd::At(now + 36_500 * 24 * HOUR), "at most 3650 days"),
    ] {
        let error = queue.pause(end, &maria()).expect_err(why);
        assert!(error.is_invalid(), "{end:?}: {error:?}");
        has(&error, "pause queue `orders`");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error} {}", cause.unwrap_or_default());
        assert!(text.contains(why), "{end:?}: {text}");
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
    assert_eq!(paused(queue.database(), "orders"), None);
    let rows = scalar(&mut client, "SELECT count(*) FROM redrive.queue_pauses");
    assert_eq!(rows, 0);
}
