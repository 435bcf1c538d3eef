//! Breakers of queues: pauses by an operator and floods of dead letters.

use redrive_tests::prelude::*;

use super::{Gateway, is, reaches, waited};

#[test]
fn a_flood_of_dead_letters_makes_jobs_wait() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let mended = kept::<AtomicBool>();
    let builder = worker(&queue).slots(2).flood_guard(10, HOUR);
    let worker = builder.runs(move |_: &Job<Order>| match mended.load(Ordering::SeqCst) {
        false => Err(Failure::reject("a bad deploy")),
        true => Ok(()),
    });
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    let open = is(db, "queue:orders", BreakerState::Open);
    assert_eq!(open.cause, BreakerCause::Flood);
    let why = open.message.expect("why");
    has(why, "more than 10 letters within 3600s");
    // A probe that dies becomes a letter, and the breaker stays open.
    waited(&mut client);
    let again = reaches(db, "queue:orders", "the probe to end", |breaker| {
        breaker.state == BreakerState::Open && breaker.outages > open.outages
    });
    mended.store(true, Ordering::SeqCst);
    waited(&mut client);
    is(db, "queue:orders", BreakerState::Closed);
    let counts = finish(&queue, worker).stats;
    assert_eq!(counts.done + counts.dead, 2000);
    // The allowed letters, one more, the job in the other slot, and the probes.
    let is_bounded = counts.dead <= 12 + again.probes;
    assert!(is_bounded, "{counts:?} after {again:?}");
    assert_eq!(in_state(&queue, LetterState::Open) as u64, counts.dead);
}

#[test]
fn a_probe_that_ran_no_handler_keeps_the_breaker_open() {
    let expired = new_order(1).expires_in(HOUR);
    let undecodable = NewJob::raw("order", r#"{"number": "one"}"#).unwrap();
    for (what, job) in [("expired", expired), ("undecodable", undecodable)] {
        let (_test, queue, mut client) = TestDatabase::with_session();
        let (gateway, db) = (kept::<Gateway>(), queue.database());
        client.sql("SELECT redrive.open_breaker('queue:orders', '1 hour')");
        client.sql("UPDATE redrive.breakers SET delay_ms = 600000");
        queue.enqueue_job(job).unwrap();
        client.sql("UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '2 hours'");
        let worker = worker(&queue).runs(gateway.handler());
        waited(&mut client);
        let probed = reaches(db, "queue:orders", "the probe to end", |breaker| {
            breaker.probes == 1 && breaker.state != BreakerState::HalfOpen
        });
        assert_eq!(probed.state, BreakerState::Open, "{what}");
        drained(&queue);
        // The next probe does not wait for the delay, because this one has shown nothing.
        queue.enqueue(&Order { number: 2 }).unwrap();
        drained(&queue);
        is(db, "queue:orders", BreakerState::Closed);
        let counts = stop(worker).stats;
        assert_eq!((counts.dead, counts.done), (1, 1), "{what}");
    }
}

#[test]
fn a_queue_whose_jobs_another_breaker_holds_back_is_probed_with_one_of_them() {
    for is_limited in [false, true] {
        let (_test, queue, mut client) = TestDatabase::with_session();
        let (gateway, db) = (kept::<Gateway>(), queue.database());
        if is_limited {
            let limit = RateLimit::per(100, HOUR);
            queue
                .limit_rate(RateLimited::Queue, limit, &maria())
                .unwrap();
        }
        for name in ["queue:orders", "payments"] {
            client.sql(&format!("SELECT redrive.open_breaker('{name}', '1 hour')"));
        }
        client.sql("UPDATE redrive.breakers SET kinds = '{order}' WHERE name = 'payments'");
        let worker = worker(&queue).runs(gateway.handler());
        for (number, name) in [(1, "queue:orders"), (2, "payments")] {
            queue.enqueue(&Order { number }).unwrap();
            waited(&mut client);
            is(db, name, BreakerState::Closed);
        }
        finish(&queue, worker);
    }
}
