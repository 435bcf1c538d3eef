//! Breakers: while what jobs need is down nobody claims them, and it closes by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use postgres::Client;
use redrive::{
    Act, Breaker, BreakerCause, BreakerState, Database, Failure, HandlerOptions, Job, LetterState,
    Queue, Worker,
};
use redrive_tests::{
    Finish, Gate, Hold, Order, SOON, TestDatabase, counted, drained, letters_in, stats, stop,
    wait_until, worker,
};

/// Something that jobs need, and that can be down. Clones are the same.
#[derive(Clone, Default)]
struct Gateway {
    shared: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    is_down: AtomicBool,
    in_vain: AtomicU64,
    highest_attempt: AtomicU32,
}

impl Gateway {
    fn down() -> Gateway {
        let gateway = Gateway::default();
        gateway.shared.is_down.store(true, Ordering::SeqCst);
        gateway
    }

    fn comes_back(&self) {
        self.shared.is_down.store(false, Ordering::SeqCst);
    }

    fn calls_in_vain(&self) -> u64 {
        self.shared.in_vain.load(Ordering::SeqCst)
    }

    fn call<P>(&self, job: &Job<P>) -> Result<(), Failure> {
        self.shared
            .highest_attempt
            .fetch_max(job.attempt(), Ordering::SeqCst);
        if self.shared.is_down.load(Ordering::SeqCst) {
            self.shared.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(Failure::outage("the gateway is down"));
        }
        Ok(())
    }

    fn handler(&self) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + use<> {
        let gateway = self.clone();
        move |job: &Job<Order>| gateway.call(job)
    }
}

fn breaker(db: &Database, name: &str) -> Option<Breaker> {
    let all = db.breakers().unwrap();
    all.into_iter().find(|breaker| breaker.name == name)
}

#[track_caller]
fn reaches(db: &Database, name: &str, what: &str, enough: impl Fn(&Breaker) -> bool) -> Breaker {
    wait_until(what, SOON, || {
        breaker(db, name).is_some_and(|breaker| enough(&breaker))
    });
    breaker(db, name).expect("it was there")
}

/// The wait before the next probe is over.
fn waited(client: &mut Client) {
    client
        .batch_execute(
            "UPDATE redrive.breakers SET probe_at = clock_timestamp() - interval '1 second' WHERE state <> 'closed'; \
             NOTIFY redrive_breaker",
        )
        .unwrap();
}

/// What was parked is due.
fn due(client: &mut Client) {
    let due = "UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 second'";
    client.execute(due, &[]).unwrap();
}

#[test]
fn ten_thousand_jobs_outlive_an_outage_of_ten_minutes_without_an_operator() {
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
            worker(&own)
                .slots(SLOTS)
                .handle(gateway.handler())
                .start()
                .unwrap()
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
    // What ran when the breaker opened, in each process, and one job a probe.
    let in_flight = 2 * (IN_A_ROW + SLOTS as u64 - 1);
    assert!(
        gateway.calls_in_vain() <= in_flight + open.probes,
        "{} calls in vain, {} probes",
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
        .map(|worker| stop(worker).counts)
        .collect();
    let sum = |of: fn(&redrive::Counts) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|counts| counts.done), JOBS.unsigned_abs());
    assert_eq!(
        (sum(|counts| counts.dead), sum(|counts| counts.lost)),
        (0, 0)
    );
    assert_eq!(sum(|counts| counts.outages), gateway.calls_in_vain());
    let letters: i64 = client
        .query_one("SELECT count(*) FROM redrive.dead_letters", &[])
        .unwrap()
        .get(0);
    assert_eq!(letters, 0);
    let highest = gateway.shared.highest_attempt.load(Ordering::SeqCst);
    assert_eq!(highest, 1, "no attempt was charged");
}

#[test]
fn a_prober_that_is_gone_is_replaced_and_comes_too_late() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let (gate, stuck) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let first = worker(&queue)
        .breaker_after(1)
        .handle({
            let (gate, stuck) = (gate.clone(), Arc::clone(&stuck));
            move |_: &Job<Order>| {
                if stuck.load(Ordering::SeqCst) {
                    gate.pass();
                }
                Err(Failure::outage("down"))
            }
        })
        .start()
        .unwrap();
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

    // Another one has no right to a probe while this one is at it.
    let gateway = Gateway::default();
    let second = worker(&test.queue("orders"))
        .handle(gateway.handler())
        .start()
        .unwrap();
    let held = reaches(db, "queue:orders", "it to be held", |_| true);
    assert_eq!(
        (held.state, second.counts().done),
        (BreakerState::HalfOpen, 0)
    );
    // Time passes, and nothing is heard of it.
    waited(&mut client);
    reaches(db, "queue:orders", "the second to close it", |breaker| {
        breaker.state == BreakerState::Closed
    });
    due(&mut client);
    counted(&second, "what the first does not hold", |counts| {
        counts.done == 2
    });

    // What the first has to say about it comes too late; it is an outage like any other.
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
    client
        .execute("SELECT redrive.close_breaker('queue:orders')", &[])
        .unwrap();
    drained(&queue);
    stop(second);
}

#[test]
fn exactly_one_of_many_workers_probes() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let (gate, mut client) = (Gate::new(), test.client());
    db.open_breaker("queue:orders", None, &Act::new()).unwrap();
    let workers: Vec<Worker> = (0..4)
        .map(|_| {
            let gate = gate.clone();
            let handler = move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            };
            worker(&test.queue("orders"))
                .slots(4)
                .handle(handler)
                .start()
                .unwrap()
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
            .handle_with(needs, gateway.handler())
            .handle(|_: &Job<Finish>| Ok(()))
            .start()
            .unwrap()
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
    // A worker of another queue knows of it before it claims.
    let second = start(&other);
    other.enqueue_many(&Order::up_to(50)).unwrap();
    // Behind fifty jobs that wait.
    for queue in [&queue, &other] {
        for _ in 0..30 {
            queue.enqueue(&Finish {}).unwrap();
        }
    }
    counted(&first, "the other kind", |counts| counts.done == 30);
    counted(&second, "the other kind", |counts| counts.done == 30);
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
    drained(&other);
    stop(first);
    assert_eq!(
        stop(second).released,
        0,
        "it claimed what it could not start"
    );
    assert_eq!(db.breakers().unwrap().len(), 1);
}

#[test]
fn a_dependency_that_only_the_handler_names_gates_the_kinds_that_named_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let is_down = Arc::new(AtomicBool::new(true));
    let worker = worker(&queue)
        .handle({
            let is_down = Arc::clone(&is_down);
            move |_: &Job<Order>| match is_down.load(Ordering::SeqCst) {
                true => Err(Failure::outage("no route").dependency("mail")),
                false => Ok(()),
            }
        })
        .handle(|_: &Job<Finish>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    let open = reaches(db, "mail", "the breaker to open", |breaker| {
        breaker.state == BreakerState::Open
    });
    assert_eq!(open.kinds, ["order"]);
    let gated = "SELECT redrive.is_gated('orders', 'order'), redrive.is_gated('orders', 'finish')";
    let row = test.client().query_one(gated, &[]).unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false));
    queue.enqueue(&Finish {}).unwrap();
    counted(&worker, "the other kind", |counts| counts.done == 1);
    is_down.store(false, Ordering::SeqCst);
    waited(&mut test.client());
    reaches(db, "mail", "it to close", |breaker| {
        breaker.state == BreakerState::Closed
    });
    due(&mut test.client());
    drained(&queue);
    stop(worker);
}

#[test]
fn an_operator_pauses_a_queue_and_lets_it_go_on() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let act = Act::new().person("maria@ops-1").why("an upgrade");
    db.open_breaker("queue:orders", None, &act).unwrap();
    let paused = breaker(db, "queue:orders").expect("the breaker");
    assert_eq!(
        (paused.state, paused.cause),
        (BreakerState::Open, BreakerCause::Operator)
    );
    assert_eq!(
        (paused.probe_at, paused.message.as_deref()),
        (None, Some("an upgrade"))
    );

    let closed = Arc::new(AtomicBool::new(false));
    let worker = worker(&queue)
        .handle({
            let closed = Arc::clone(&closed);
            move |_: &Job<Order>| match closed.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(Failure::reject("it ran in spite of the pause")),
            }
        })
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    closed.store(true, Ordering::SeqCst);
    assert!(db.close_breaker("queue:orders", &act).unwrap());
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 5);
    assert!(
        !db.close_breaker("queue:orders", &act).unwrap(),
        "it was closed"
    );
    assert!(!db.close_breaker("queue:nobody", &act).unwrap());

    let asked = "SELECT verb, person, why, about ->> 'breaker' FROM redrive.audit ORDER BY id";
    let rows = test.client().query(asked, &[]).unwrap();
    let acts: Vec<[String; 4]> = rows
        .iter()
        .map(|row| [0, 1, 2, 3].map(|column| row.get(column)))
        .collect();
    let told = |verb: &str| [verb, "maria@ops-1", "an upgrade", "queue:orders"].map(str::to_owned);
    assert_eq!(acts, [told("open_breaker"), told("close_breaker")]);
}

#[test]
fn a_pause_ends_by_itself_and_bad_ones_are_refused() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let hour = Some(Duration::from_hours(1));
    db.open_breaker("queue:orders", hour, &Act::new()).unwrap();
    let paused = breaker(db, "queue:orders").expect("the breaker");
    let ahead = paused
        .probe_at
        .expect("an end")
        .duration_since(paused.opened_at)
        .unwrap();
    assert!((3590..=3610).contains(&ahead.as_secs()), "{ahead:?}");
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    waited(&mut test.client());
    drained(&queue);
    stop(worker);
    for (name, lasting) in [
        ("", hour),
        ("queue:", hour),
        ("a\nb", hour),
        ("a\0b", hour),
        ("a", Some(Duration::ZERO)),
        ("a", Some(Duration::MAX)),
    ] {
        let error = db.open_breaker(name, lasting, &Act::new()).expect_err(name);
        assert!(error.is_invalid(), "{name:?} {lasting:?}: {error:?}");
    }
    assert_eq!(db.breakers().unwrap().len(), 1);
}

#[test]
fn a_flood_of_letters_makes_jobs_wait_instead_of_dying() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let broken = Arc::new(AtomicBool::new(true));
    let worker = worker(&queue)
        .slots(2)
        .flood_guard(10, Duration::from_hours(1))
        .handle({
            let broken = Arc::clone(&broken);
            move |_: &Job<Order>| match broken.load(Ordering::SeqCst) {
                true => Err(Failure::reject("a bad deploy")),
                false => Ok(()),
            }
        })
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    let open = reaches(db, "queue:orders", "the breaker to open", |breaker| {
        breaker.state == BreakerState::Open
    });
    assert_eq!(open.cause, BreakerCause::Flood);
    assert_eq!(
        open.message.as_deref(),
        Some("over 10 letters within 3600s")
    );
    // A probe that dies is a letter, and no reason to go on.
    waited(&mut client);
    let again = reaches(db, "queue:orders", "the probe to end", |breaker| {
        breaker.state == BreakerState::Open && breaker.outages > open.outages
    });
    broken.store(false, Ordering::SeqCst);
    waited(&mut client);
    reaches(db, "queue:orders", "the breaker to close", |breaker| {
        breaker.state == BreakerState::Closed
    });
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!(counts.done + counts.dead, 2000);
    // Those that are allowed, one more, what ran in the other slot, and the probes.
    assert!(
        counts.dead <= 12 + again.probes,
        "{counts:?} after {again:?}"
    );
    assert_eq!(
        letters_in(db, "orders", LetterState::Open) as u64,
        counts.dead
    );
}

#[test]
fn jobs_in_hand_that_were_not_started_go_back() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gateway = Gateway::default();
    let worker = worker(&queue)
        .slots(2)
        .breaker_after(1)
        .handle(gateway.handler())
        .start()
        .unwrap();
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    drained(&queue);
    gateway.shared.is_down.store(true, Ordering::SeqCst);
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    reaches(queue.database(), "queue:orders", "it to open", |breaker| {
        breaker.state == BreakerState::Open
    });
    wait_until("nothing to be in its hands", SOON, || worker.is_idle());
    let probes = breaker(queue.database(), "queue:orders")
        .expect("the breaker")
        .probes;
    assert!(
        gateway.calls_in_vain() <= 2 + probes,
        "{} calls",
        gateway.calls_in_vain()
    );
    let charged = "SELECT count(*) FROM redrive.jobs WHERE attempt > 0 OR refunds > 0";
    let charged: i64 = test.client().query_one(charged, &[]).unwrap().get(0);
    assert_eq!(charged, 0);
    assert!(stop(worker).released > 0);
}

#[test]
fn a_worker_with_absurd_breakers_does_not_start() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let handled = || worker(&queue).handle(|_: &Job<Hold>| Ok(()));
    let needs = |name: &str| {
        let options = HandlerOptions::new().dependency(name);
        worker(&queue).handle_with(options, |_: &Job<Hold>| Ok(()))
    };
    for (builder, why) in [
        (handled().breaker_after(0), "after 0 outages"),
        (handled().breaker_after(1001), "after 1001 outages"),
        (handled().flood_guard(0, SOON), "against 0 letters"),
        (handled().flood_guard(1, Duration::ZERO), "within 0ns"),
        (needs(""), "dependency name `` is empty"),
        (needs("queue:orders"), "is a queue"),
    ] {
        let error = builder.start().map(drop).expect_err(why);
        assert!(
            error.is_invalid() && error.to_string().contains(why),
            "{error}"
        );
    }
}
