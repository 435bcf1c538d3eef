//! Probes whose job ran no handler, which shows nothing about the dependency.

use super::*;

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_probe_that_ran_no_handler_keeps_the_breaker_open() {
    let expired = new_order(1).expires_in(HOUR);
    let undecodable = NewJob::raw("order", r#"{"number": "one"}"#).unwrap();
    for (what, job) in [("expired", expired), ("undecodable", undecodable)] {
        let test = TestDatabase::migrated();
        let (gateway, mut client) = (Gateway::default(), test.client());
        let queue = test.queue("orders");
        let db = queue.database();
        let opened = db
            .admin()
            .open_breaker("queue:orders", Some(HOUR), &maria());
        opened.unwrap();
        queue.enqueue_job(job).unwrap();
        client.sql("UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '2 hours'");
        let worker = worker(&queue).runs(gateway.handler());
        waited(&mut client);
        let probed = reaches(db, "queue:orders", "the probe to end", |breaker| {
            breaker.probes == 1 && breaker.state != BreakerState::HalfOpen
        });
        assert_eq!(probed.state, BreakerState::Open, "{what}");
        drained(&queue);
        queue.enqueue(&Order { number: 2 }).unwrap();
        waited(&mut client);
        drained(&queue);
        is(db, "queue:orders", BreakerState::Closed);
        let counts = stop(worker).stats;
        assert_eq!((counts.dead, counts.done), (1, 1), "{what}");
    }
}
