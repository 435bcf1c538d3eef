//! Breakers of dependencies in an outage: opening, probing, closing.

use redrive::worker::WorkerStats;
use redrive_tests::prelude::*;

use super::{Gateway, breaker, is, reaches, state, waited};

#[test]
fn ten_thousand_jobs_survive_a_ten_minute_outage_without_an_operator() {
    const JOBS: i64 = 10_000;
    const SLOTS: usize = 4;
    const IN_A_ROW: u64 = 5;
    let (test, queue, mut client) = TestDatabase::with_session();
    let gateway = Gateway::down();
    let db = queue.database();
    let workers = [(); 2].map(|()| {
        let own = test.queue("orders");
        worker(&own).slots(SLOTS).runs(gateway.handler())
    });
    queue.enqueue_many(&Order::up_to(JOBS)).unwrap();

    let mut outage = Duration::ZERO;
    let mut probes = 0;
    while outage < Duration::from_mins(10) {
        let open = reaches(db, "queue:orders", "the breaker to wait", |breaker| {
            breaker.state == BreakerState::Open && breaker.probes >= probes
        });
        probes = open.probes;
        outage += open.wait;
        waited(&mut client);
        reaches(db, "queue:orders", "the next probe", |breaker| {
            breaker.probes > probes
        });
        probes += 1;
    }
    let open = is(db, "queue:orders", BreakerState::Open);
    assert!(open.probes <= 20, "{} probes", open.probes);
    assert_eq!(open.wait, Duration::from_mins(1));
    // The jobs running when the breaker opened, and one job per probe.
    let in_flight = 2 * (IN_A_ROW + SLOTS as u64 - 1);
    let (calls, probes) = (gateway.calls_in_vain(), open.probes);
    let is_bounded = calls <= in_flight + probes;
    assert!(is_bounded, "{calls} calls, {probes} probes");

    gateway.comes_back();
    waited(&mut client);
    is(db, "queue:orders", BreakerState::Closed);
    test.all_due();
    drained(&queue);
    let counts = workers.map(|worker| stop(worker).stats);
    let sum = |of: fn(&WorkerStats) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|counts| counts.done), JOBS.unsigned_abs());
    assert_eq!(sum(|counts| counts.dead + counts.lost), 0);
    assert_eq!(sum(|counts| counts.outages), gateway.calls_in_vain());
    assert_eq!(client.count("dead_letters"), 0);
    let highest = gateway.highest_attempt.load(Ordering::SeqCst);
    assert_eq!(highest, 1, "no attempt was charged");
}

#[test]
fn a_lost_prober_is_replaced_and_its_late_result_ignored() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let (gate, stuck) = (kept::<Gate>(), kept::<AtomicBool>());
    let builder = worker(&queue).breaker_threshold(1);
    let first = builder.runs(move |_: &Job<Order>| {
        if stuck.load(Ordering::SeqCst) {
            gate.pass();
        }
        Err(Failure::outage("down"))
    });
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    is(db, "queue:orders", BreakerState::Open);
    stuck.store(true, Ordering::SeqCst);
    waited(&mut client);
    gate.wait_for(1);
    assert_eq!(state(db), BreakerState::HalfOpen);

    // No other worker can probe during a probe.
    let gateway = kept::<Gateway>();
    let second = worker(&test.queue("orders")).runs(gateway.handler());
    informed(&test, &[&second]);
    let held = breaker(db, "queue:orders").expect("the breaker");
    assert_eq!(held.state, BreakerState::HalfOpen);
    assert_eq!((second.stats().done, gate.arrived()), (0, 1));
    // The prober stays silent.
    waited(&mut client);
    is(db, "queue:orders", BreakerState::Closed);
    test.all_due();
    done(&second, 2);

    // The result of the first prober comes too late and is an ordinary outage.
    gate.open();
    counted(&first, "the late end of the probe", |it| it.outages >= 2);
    stop(first);
    let after = breaker(db, "queue:orders").expect("the breaker");
    assert_eq!(after.outages, held.outages, "a late probe does not count");
    test.all_due();
    client.sql("SELECT redrive.close_breaker('queue:orders')");
    finish(&queue, second);
}

#[test]
fn the_breaker_of_one_dependency_leaves_other_kinds_alone() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("refunds"));
    let db = queue.database();
    let (gateway, mut client) = (Gateway::down(), test.client());
    let start = |queue: &Queue| {
        let needs = HandlerOptions::new().dependency("payments-api");
        let worker = worker(queue).redact(|text| text.replace("gateway", "****"));
        let worker = worker.handle(gateway.handler()).options(needs);
        worker.runs(|_: &Job<Finish>| Ok(()))
    };
    let first = start(&queue);
    queue.enqueue_many(&Order::up_to(50)).unwrap();
    let open = is(db, "payments-api", BreakerState::Open);
    assert_eq!(open.cause, BreakerCause::Outage);
    assert_eq!(open.kinds, ["order"]);
    assert_eq!(open.message.as_deref(), Some("the **** is down"));
    let calls = gateway.calls_in_vain();
    // A worker of another queue sees the breaker before it claims.
    let second = start(&other);
    other.enqueue_many(&Order::up_to(50)).unwrap();
    // Behind fifty waiting jobs.
    for queue in [&queue, &other] {
        queue.enqueue_many(&[Finish {}; 30]).unwrap();
    }
    done(&first, 30);
    done(&second, 30);
    let probes = breaker(db, "payments-api").expect("the breaker").probes;
    assert!(gateway.calls_in_vain() <= calls + probes, "but for probes");
    let waiting = stats(db, "refunds").expect("a queue with jobs");
    assert_eq!(waiting.ready + waiting.delayed + waiting.leased, 50);

    gateway.comes_back();
    waited(&mut client);
    is(db, "payments-api", BreakerState::Closed);
    test.all_due();
    drained(&queue);
    finish(&other, first);
    let released = stop(second).stats.released;
    assert_eq!(released, 0, "it claimed what it could not start");
    assert_eq!(db.admin().breakers().unwrap().len(), 1);
}
