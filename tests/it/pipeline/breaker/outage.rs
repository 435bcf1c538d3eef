//! Breakers of dependencies in an outage: opening, probing, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::Client;
use redrive::admin::{BreakerCause, BreakerState};
use redrive::{Failure, HandlerOptions, Job, Operator, Queue, Worker};
use redrive_tests::{
    Begin, Finish, Gate, Hold, Order, Sql, TestDatabase, counted, done, drained, finish, scalar,
    stats, stop, worker,
};

use super::{Gateway, breaker, reaches, waited};

/// Makes the parked jobs due.
fn due(client: &mut Client) {
    let due = "UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 second'";
    client.sql(due);
}

#[test]
fn ten_thousand_jobs_survive_a_ten_minute_outage_without_an_operator() {
    const JOBS: i64 = 10_000;
    const SLOTS: usize = 4;
    const IN_A_ROW: u64 = 5;
    let test = TestDatabase::migrated();
    let (gateway, mut client) = (Gateway::down(), test.client());
    let queue = test.queue("orders");
    let db = queue.database();
    let workers: Vec<Worker> = (0..2)
        .map(|_| {
            let own = test.queue("orders");
            worker(&own).slots(SLOTS).runs(gateway.handler())
        })
        .collect();
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
    let open = reaches(db, "queue:orders", "the probe to end", |breaker| {
        breaker.state == BreakerState::Open
    });
    assert!(open.probes <= 20, "{} probes", open.probes);
    assert_eq!(open.wait, Duration::from_mins(1));
    // The jobs running when the breaker opened, and one job per probe.
    let in_flight = 2 * (IN_A_ROW + SLOTS as u64 - 1);
    assert!(
        gateway.calls_in_vain() <= in_flight + open.probes,
        "{} failed calls, {} probes",
        gateway.calls_in_vain(),
        open.probes
    );
    assert_eq!(open.openings, 1);

    gateway.comes_back();
    waited(&mut client);
    reaches(db, "queue:orders", "the breaker to close", |breaker| {
        breaker.state == BreakerState::Closed
    });
    due(&mut client);
    drained(&queue);
    let counts: Vec<_> = workers
        .into_iter()
        .map(|worker| stop(worker).stats)
        .collect();
    let sum = |of: fn(&redrive::worker::WorkerStats) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|counts| counts.done), JOBS.unsigned_abs());
    assert_eq!(
        (sum(|counts| counts.dead), sum(|counts| counts.lost)),
        (0, 0)
    );
    assert_eq!(sum(|counts| counts.outages), gateway.calls_in_vain());
    let letters = scalar(&mut client, "SELECT count(*) FROM redrive.dead_letters");
    assert_eq!(letters, 0);
    let highest = gateway.shared.highest_attempt.load(Ordering::SeqCst);
    assert_eq!(highest, 1, "no attempt was charged");
}

#[test]
fn a_lost_prober_is_replaced_and_its_late_result_ignored() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let (gate, stuck) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let first = worker(&queue).breaker_threshold(1).runs({
        let (gate, stuck) = (gate.clone(), Arc::clone(&stuck));
        move |_: &Job<Order>| {
            if stuck.load(Ordering::SeqCst) {
                gate.pass();
            }
            Err(Failure::outage("down"))
        }
    });
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    reaches(db, "queue:orders", "it to open", |breaker| {
        breaker.state == BreakerState::Open
    });
    stuck.store(true, Ordering::SeqCst);
    waited(&mut client);
    gate.wait_for(1);
    assert_eq!(
        breaker(db, "queue:orders").map(|breaker| breaker.state),
        Some(BreakerState::HalfOpen)
    );

    // No other worker can probe during a probe.
    let gateway = Gateway::default();
    let second = worker(&test.queue("orders")).runs(gateway.handler());
    let held = reaches(db, "queue:orders", "it to be held", |_| true);
    assert_eq!(
        (held.state, second.stats().done),
        (BreakerState::HalfOpen, 0)
    );
    // The prober stays silent.
    waited(&mut client);
    reaches(db, "queue:orders", "the second to close it", |breaker| {
        breaker.state == BreakerState::Closed
    });
    due(&mut client);
    done(&second, 2);

    // The result of the first prober comes too late and is an ordinary outage.
    gate.open();
    counted(&first, "the late end of the probe", |counts| {
        counts.outages >= 2
    });
    stop(first);
    let after = breaker(db, "queue:orders").expect("the breaker");
    assert_eq!(
        after.outages, held.outages,
        "a late probe does not count: {after:?}"
    );
    due(&mut client);
    client.sql("SELECT redrive.close_breaker('queue:orders')");
    finish(&queue, second);
}

#[test]
fn exactly_one_of_many_workers_probes() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (gate, mut client) = (Gate::new(), test.client());
    db.admin()
        .open_breaker("queue:orders", None, &Operator::default())
        .unwrap();
    let workers: Vec<Worker> = (0..4)
        .map(|_| {
            let handler = gate.handler();
            worker(&test.queue("orders")).slots(4).runs(handler)
        })
        .collect();
    for _ in 0..20 {
        queue.enqueue(&Hold {}).unwrap();
    }
    waited(&mut client);
    gate.wait_for(1);
    let held = breaker(db, "queue:orders").expect("the breaker");
    assert_eq!((held.state, held.probes), (BreakerState::HalfOpen, 1));
    let now = stats(db, "orders").expect("a queue with jobs");
    assert_eq!((now.leased, now.ready, gate.arrived()), (1, 19, 1));
    gate.open();
    drained(&queue);
    assert_eq!(
        breaker(db, "queue:orders").map(|breaker| breaker.state),
        Some(BreakerState::Closed)
    );
    for worker in workers {
        stop(worker);
    }
}

#[test]
fn the_breaker_of_one_dependency_leaves_other_kinds_alone() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("refunds"));
    let db = queue.database();
    let (gateway, mut client) = (Gateway::down(), test.client());
    let start = |queue: &Queue| {
        let needs = HandlerOptions::new().dependency("payments-api");
        worker(queue)
            .handle(gateway.handler())
            .options(needs)
            .runs(|_: &Job<Finish>| Ok(()))
    };
    let first = start(&queue);
    queue.enqueue_many(&Order::up_to(50)).unwrap();
    let open = reaches(db, "payments-api", "the breaker to open", |breaker| {
        breaker.state == BreakerState::Open
    });
    assert_eq!(
        (open.cause, &*open.kinds),
        (BreakerCause::Outage, &["order".to_owned()][..])
    );
    assert_eq!(open.message.as_deref(), Some("the gateway is down"));
    let calls = gateway.calls_in_vain();
    // A worker of another queue sees the breaker before it claims.
    let second = start(&other);
    other.enqueue_many(&Order::up_to(50)).unwrap();
    // Behind fifty waiting jobs.
    for queue in [&queue, &other] {
        for _ in 0..30 {
            queue.enqueue(&Finish {}).unwrap();
        }
    }
    done(&first, 30);
    done(&second, 30);
    let probes = breaker(db, "payments-api").expect("the breaker").probes;
    assert!(gateway.calls_in_vain() <= calls + probes, "but for probes");
    let waiting = stats(db, "refunds").expect("a queue with jobs");
    assert!(
        waiting.ready + waiting.delayed + waiting.leased == 50,
        "{waiting:?}"
    );

    gateway.comes_back();
    waited(&mut client);
    reaches(db, "payments-api", "the breaker to close", |breaker| {
        breaker.state == BreakerState::Closed
    });
    due(&mut client);
    drained(&queue);
    finish(&other, first);
    assert_eq!(
        stop(second).released,
        0,
        "it claimed what it could not start"
    );
    assert_eq!(db.admin().breakers().unwrap().len(), 1);
}
