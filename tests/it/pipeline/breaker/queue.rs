//! Breakers of queues: pauses by an operator and floods of dead letters.

use redrive_tests::prelude::*;

use super::{Gateway, breaker, is, reaches, waited};

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
fn an_open_breaker_releases_claimed_jobs_that_have_not_started() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let (gateway, gate) = (kept::<Gateway>(), kept::<Gate>());
    let builder = worker(&queue).slots(2).breaker_threshold(1);
    let worker = builder.runs(move |job: &Job<Order>| {
        if gateway.is_down.load(Ordering::SeqCst) {
            gate.pass();
        }
        gateway.call(job)
    });
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    drained(&queue);
    gateway.is_down.store(true, Ordering::SeqCst);
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    let claimed = "SELECT coalesce(sum(job_count), 0) FROM redrive.leases";
    wait_until("a batch to be claimed", SOON, || {
        scalar(&mut client, claimed) > 2
    });
    gate.open();
    is(queue.database(), "queue:orders", BreakerState::Open);
    wait_until("nothing to be in its hands", SOON, || worker.is_idle());
    let after = breaker(queue.database(), "queue:orders").expect("the breaker");
    let calls = gateway.calls_in_vain();
    assert!(calls <= 2 + after.probes, "{calls} calls");
    let charged = "jobs WHERE (meta).attempt > 0 OR (meta).refunds > 0";
    assert_eq!(client.count(charged), 0);
    assert!(stop(worker).released > 0);
}

#[test]
fn a_probe_that_ran_no_handler_keeps_the_breaker_open() {
    let expired = new_order(1).expires_in(HOUR);
    let undecodable = NewJob::raw("order", r#"{"number": "one"}"#).unwrap();
    for (what, job) in [("expired", expired), ("undecodable", undecodable)] {
        let (_test, queue, mut client) = TestDatabase::with_session();
        let (gateway, db) = (kept::<Gateway>(), queue.database());
        let admin = db.admin();
        let opened = admin.open_breaker("queue:orders", Some(HOUR), &maria());
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
