//! Breakers of queues: pauses by an operator and floods of dead letters.

use redrive_tests::prelude::*;

use super::{Gateway, breaker, is, reaches, waited};

#[test]
fn a_flood_of_dead_letters_makes_jobs_wait() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let broken = Arc::new(AtomicBool::new(true));
    let worker = worker(&queue)
        .slots(2)
        .flood_guard(10, Duration::from_hours(1))
        .runs({
            let broken = Arc::clone(&broken);
            move |_: &Job<Order>| match broken.load(Ordering::SeqCst) {
                true => Err(Failure::reject("a bad deploy")),
                false => Ok(()),
            }
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
    broken.store(false, Ordering::SeqCst);
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
    let (test, queue) = TestDatabase::with_orders();
    let mut client = test.client();
    let (gateway, gate) = (Gateway::default(), Gate::new());
    let worker = worker(&queue).slots(2).breaker_threshold(1).runs({
        let (gateway, gate) = (gateway.clone(), gate.clone());
        move |job: &Job<Order>| {
            if gateway.shared.is_down.load(Ordering::SeqCst) {
                gate.pass();
            }
            gateway.call(job)
        }
    });
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    drained(&queue);
    gateway.shared.is_down.store(true, Ordering::SeqCst);
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
