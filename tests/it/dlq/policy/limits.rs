//! Batches, generations and delays of a policy, and letters it cannot send.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use redrive::dlq::{LetterFilter, LetterState, Policy, PolicyBreaker};
use redrive::{Failure, Job, JobId, NewJob, Operator, PauseEnd, Queue, Worker};
use redrive_tests::{
    Begin, Order, SOON, Sql, Tally, TestDatabase, drained, letters, letters_in, stop, wait_until,
    worker,
};
use uuid::Uuid;

use super::{HOUR, ids, later, status, tick};

/// A worker whose handler fails for orders above a number.
fn instance(queue: &Queue, mended: i64, tally: &Tally) -> Worker {
    let tally = tally.clone();
    worker(queue)
        .slots(4)
        .lease(Duration::from_secs(3))
        .handle(move |job: &Job<Order>| {
            tally.count(job.id());
            if job.payload().number <= mended {
                return Ok(());
            }
            Err(Failure::reject("the partner is away"))
        })
        .started()
}

#[test]
fn three_processes_keep_the_limits_of_a_policy() {
    let test = TestDatabase::migrated();
    let queue = test.queue("events");
    let db = queue.database();
    let mut client = test.client();
    let every = 6 * HOUR;
    let dead = letters(&queue, 120);
    // The next attempt of the ten oldest succeeds.
    let mended: BTreeSet<JobId> = dead.iter().copied().take(10).collect();
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '1 day' + id * interval '1 second'");

    let tally = Tally::new();
    // Each process has its own pool.
    let instances: Vec<Worker> = (0..3)
        .map(|_| instance(&test.queue("events"), 10, &tally))
        .collect();
    let policy = Policy::new("events", LetterFilter::new().queue("events"))
        .every(every)
        .batch(50)
        .generations(240);

    let mut sent = 0;
    for round in 1..=5 {
        let oldest: BTreeSet<JobId> = client
            .query("SELECT id FROM redrive.dead_letters WHERE state = 'open' ORDER BY died_at, id LIMIT 50", &[])
            .map(|rows| rows.iter().map(|row| JobId::new(row.get(0))).collect())
            .unwrap();
        let runs: Vec<u32> = dead.iter().map(|id| tally.of(*id)).collect();
        // The first tick runs at once, each further one after six hours.
        if round == 1 {
            db.dlq()
                .policies()
                .set(&policy, &Operator::default())
                .unwrap();
        } else {
            assert!(status(db, "events").next_at > SystemTime::now() + every - HOUR);
            later(&mut client, every);
        }
        sent += 50;
        wait_until("the tick", SOON, || status(db, "events").sent == sent);
        drained(&queue);
        wait_until("all letters to be back", SOON, || {
            letters_in(db, "events", LetterState::Redriving) == 0
        });
        for (id, ran) in dead.iter().zip(runs) {
            let now = u32::from(oldest.contains(id));
            assert_eq!(
                tally.of(*id),
                ran + now,
                "round {round}: {id}, the oldest fifty once each"
            );
        }
    }
    assert_eq!(ids(&mut client, "l.state = 'recovered'"), mended);
    assert!(
        mended.iter().all(|id| tally.of(*id) == 1),
        "a recovered letter is not taken"
    );
    assert_eq!(letters_in(db, "events", LetterState::Quarantined), 0);

    // One letter is one generation below the limit, the others have reached it.
    let last = *dead.last().unwrap();
    let generations = "UPDATE redrive.dead_letters SET generation = CASE id WHEN $1 THEN 239 ELSE 240 END WHERE state = 'open'";
    client.execute(generations, &[&last.get()]).unwrap();
    let ran = tally.of(last);
    later(&mut client, every);
    wait_until("the last try", SOON, || tally.of(last) == ran + 1);
    drained(&queue);
    let tried: usize = tally.order().len();
    wait_until("all letters to be back", SOON, || {
        letters_in(db, "events", LetterState::Redriving) == 0
    });
    assert_eq!(status(db, "events").last_letters, 1);
    later(&mut client, every);
    wait_until("a tick with nothing to do", SOON, || {
        status(db, "events").last_letters == 0
    });
    drained(&queue);
    assert_eq!(tally.order().len(), tried, "240 times is the limit");
    assert_eq!(letters_in(db, "events", LetterState::Open), 110);
    let counts: Vec<i64> = client
        .query(
            "SELECT letters FROM redrive.audit WHERE verb = 'policy' ORDER BY id",
            &[],
        )
        .map(|rows| rows.iter().map(|row| row.get(0)).collect())
        .unwrap();
    assert_eq!(
        counts,
        [50, 50, 50, 50, 50, 1],
        "a row for each tick that sent something"
    );
    for instance in instances {
        stop(instance);
    }
}

#[test]
fn the_delay_grows_with_the_generation_up_to_its_maximum() {
    let (_test, mut client) = TestDatabase::with_client();
    for (growth, generation, hours) in [
        (1.0, 0, 0.0),
        (1.0, 100_000, 0.0),
        (2.0, 0, 0.0),
        (2.0, 1, 1.0),
        (2.0, 2, 3.0),
        (2.0, 4, 15.0),
        (2.0, 5, 23.0),
        (2.0, 100_000, 23.0),
        (1.5, 1, 0.5),
        (100.0, 1, 23.0),
    ] {
        let asked = "SELECT extract(epoch FROM redrive.policy_wait('1 hour', $1, '1 day', $2))::float8 / 3600";
        let row = client.query_one(asked, &[&growth, &generation]).unwrap();
        let wait: f64 = row.get(0);
        assert!(
            (wait - hours).abs() < 1e-6,
            "{growth} {generation}: {wait} h"
        );
    }
}

#[test]
fn a_policy_redrives_nothing_into_a_queue_with_an_open_breaker() {
    let (test, mut client) = TestDatabase::with_client();
    let (orders, mails) = (test.queue("orders"), test.queue("mails"));
    let db = orders.database();
    letters(&orders, 2);
    letters(&mails, 3);
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS redrive.breakers \
               (name text PRIMARY KEY, state text NOT NULL, why text, delay_ms bigint, probe_at timestamptz); \
             INSERT INTO redrive.breakers (name, state, cause, delay_ms, probe_at) \
             VALUES ('queue:orders', 'open', 'operator', 1000, clock_timestamp() + interval '1 hour')",
        )
        .unwrap();
    let one = Uuid::new_v4();
    db.dlq()
        .policies()
        .set(
            &Policy::new("of-all", LetterFilter::new()),
            &Operator::default(),
        )
        .unwrap();
    db.dlq()
        .policies()
        .set(
            &Policy::new("of-orders", LetterFilter::new().queue("orders")),
            &Operator::default(),
        )
        .unwrap();
    assert!(status(db, "of-orders").is_held && !status(db, "of-all").is_held);
    assert_eq!(tick(&mut client, one), Some(("of-all".to_owned(), 3)));
    assert_eq!(tick(&mut client, one), None, "it waits, and keeps its tick");
    client.sql("UPDATE redrive.breakers SET state = 'closed', probe_at = NULL");
    assert_eq!(tick(&mut client, one), Some(("of-orders".to_owned(), 2)));
}

#[test]
fn a_policy_redrives_into_a_paused_queue_only_if_it_ignores_breakers() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 2);
    let operator = Operator::default();
    queue.pause(PauseEnd::Resumed, &operator).unwrap();
    let one = Uuid::new_v4();
    let policy = Policy::new("of-orders", LetterFilter::new().queue("orders"));
    let policies = db.dlq().policies();
    policies.set(&policy.clone().batch(1), &operator).unwrap();
    assert!(status(db, "of-orders").is_held);
    assert_eq!(tick(&mut client, one), None, "it waits, and keeps its tick");
    policies
        .set(&policy.batch(1).breaker(PolicyBreaker::Ignore), &operator)
        .unwrap();
    assert!(!status(db, "of-orders").is_held);
    assert_eq!(tick(&mut client, one), Some(("of-orders".to_owned(), 1)));
    let policy = Policy::new("later", LetterFilter::new().queue("orders"));
    policies.set(&policy, &operator).unwrap();
    assert_eq!(tick(&mut client, one), None);
    assert!(queue.resume(&operator).unwrap());
    assert_eq!(tick(&mut client, one), Some(("later".to_owned(), 1)));
}

#[test]
fn a_policy_redrives_only_letters_its_filter_and_limits_allow() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let dead = letters(&queue, 6);
    // One is locked, one is quarantined, one is a capture that is not JSON.
    client.sql(&format!(
        "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id = {}; \
             UPDATE redrive.dead_letters SET payload = NULL, raw = 'x' WHERE id = {}",
        dead[1], dead[2]
    ));
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    transaction
        .execute(
            "SELECT FROM redrive.dead_letters WHERE id = $1 FOR UPDATE",
            &[&dead[0].get()],
        )
        .unwrap();
    db.dlq()
        .policies()
        .set(
            &Policy::new("p", LetterFilter::new().ids(dead[..5].iter().copied())),
            &Operator::default(),
        )
        .unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), Some(("p".to_owned(), 2)));
    assert_eq!(
        ids(
            &mut client,
            "l.state = 'redriving' AND l.policy_id IS NOT NULL"
        ),
        [dead[3], dead[4]].into()
    );
    for refused in [
        LetterFilter::new().limit(5),
        LetterFilter::new().after(dead[0]),
        LetterFilter::new().state(LetterState::Open),
    ] {
        let error = db
            .dlq()
            .policies()
            .set(&Policy::new("q", refused), &Operator::default())
            .expect_err("not a filter for a policy");
        assert!(error.is_invalid(), "{error}");
    }
}

#[test]
fn letters_whose_keys_are_held_take_no_places_of_the_batch() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let keyed = |key: &str| {
        let job = NewJob::new(&Order { number: 1 }).unwrap().unique(key);
        queue.enqueue_job(job).unwrap().id()
    };
    let held = ["one", "two"].map(|key| {
        let id = keyed(key);
        db.admin().cancel(id).unwrap();
        keyed(key);
        id
    });
    let free = keyed("three");
    db.admin().cancel(free).unwrap();
    let policy = Policy::new("p", LetterFilter::new().queue("orders"))
        .every(HOUR)
        .batch(2);
    db.dlq()
        .policies()
        .set(&policy, &Operator::default())
        .unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), Some(("p".to_owned(), 1)));
    assert_eq!(ids(&mut client, "l.state = 'redriving'"), [free].into());
    assert_eq!(ids(&mut client, "l.state = 'open'"), held.into());
}
