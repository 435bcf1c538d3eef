//! Unique jobs: at most one live job of a queue has a given key, from its enqueue to its end.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use postgres::Transaction;
use redrive::{
    Act, Cancelled, Failure, Job, JobId, LetterState, Letters, NewJob, Queue, Skip, Unique,
};
use redrive_tests::{
    Gate, Hold, Lost, Order, Tally, TestDatabase, counted, drained, letters_in, lose_leases, stop,
    worker,
};

fn order(number: i64) -> NewJob {
    NewJob::new(&Order { number }).unwrap()
}

/// The jobs that hold a key, with their keys, in the order of the keys.
fn held(test: &TestDatabase) -> Vec<(String, JobId)> {
    let asked = "SELECT key, job_id FROM redrive.unique_keys ORDER BY queue, key";
    let rows = test.client().query(asked, &[]).unwrap();
    rows.iter()
        .map(|row| (row.get(0), JobId::new(row.get(1))))
        .collect()
}

#[track_caller]
fn inserted(added: Unique) -> JobId {
    match added {
        Unique::Inserted(id) => id,
        Unique::Existing(id) => panic!("job {id} has the key"),
    }
}

#[test]
fn a_second_job_of_a_key_is_the_first() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("refunds"));
    let first = inserted(queue.add_unique(order(1).unique("a")).unwrap());
    assert_eq!(
        queue.add_unique(order(2).unique("a")).unwrap(),
        Unique::Existing(first)
    );
    assert_eq!(queue.add(order(3).unique("a")).unwrap(), first);
    let job = queue.database().job(first).unwrap().expect("a live job");
    assert_eq!(
        (job.unique_key.as_deref(), job.outage_since),
        (Some("a"), None)
    );
    inserted(queue.add_unique(order(4).unique("b")).unwrap());
    inserted(queue.add_unique(order(5)).unwrap());
    inserted(other.add_unique(order(6).unique("a")).unwrap());
    // Delayed jobs hold their key as well, and a call may have both kinds and a key twice.
    let jobs = vec![
        order(7).unique("c").delay(Duration::from_hours(1)),
        order(8),
        order(9).unique("a"),
        order(10).unique("c"),
    ];
    let ids = queue.add_many(jobs).unwrap();
    assert_eq!((ids[2], ids[3]), (first, ids[0]));
    let jobs = "SELECT count(*) FROM redrive.live_jobs";
    let count: i64 = test.client().query_one(jobs, &[]).unwrap().get(0);
    assert_eq!(count, 6);
    let keyed = "SELECT count(*) FROM redrive.live_jobs j JOIN redrive.unique_keys k \
                 ON k.job_id = j.id AND k.key = j.unique_key AND k.queue = j.queue";
    let count: i64 = test.client().query_one(keyed, &[]).unwrap().get(0);
    assert_eq!(count, 4);
}

#[test]
fn keys_in_bulk_have_a_limit_that_is_told() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let mut jobs: Vec<NewJob> = (0..1001).map(order).collect();
    jobs[700] = order(700).unique("a");
    let error = queue.add_many(jobs.clone()).expect_err("too many");
    assert!(
        error.is_invalid() && error.to_string().contains("1000"),
        "{error}"
    );
    jobs.pop();
    assert_eq!(queue.add_many(jobs).unwrap().len(), 1000);
    let error = queue.add(order(1).unique("")).expect_err("an empty key");
    assert!(error.is_invalid(), "{error:?}");
}

#[test]
fn eight_enqueuers_at_once_make_one_job_of_a_key() {
    let test = TestDatabase::migrated();
    let start = Arc::new(Barrier::new(8));
    let enqueuers: Vec<_> = (0..8)
        .map(|number| {
            let (queue, start) = (test.queue("orders"), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                let added =
                    (0..20).map(|key| queue.add_unique(order(number).unique(key.to_string())));
                added.collect::<Result<Vec<Unique>, _>>().unwrap()
            })
        })
        .collect();
    let added: Vec<Unique> = enqueuers
        .into_iter()
        .flat_map(|enqueuer| enqueuer.join().expect("an enqueuer"))
        .collect();
    let stored: HashSet<JobId> = added
        .iter()
        .filter(|added| matches!(added, Unique::Inserted(_)))
        .map(|added| added.id())
        .collect();
    let told: HashSet<JobId> = added.iter().map(|added| added.id()).collect();
    assert_eq!(
        (stored.len(), &stored),
        (20, &told),
        "each key has one job, and all know it"
    );
    assert_eq!(held(&test).len(), 20);
}

#[test]
fn a_key_is_free_again_when_its_job_is_done_or_dead_or_cancelled() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Ok(()),
            2 => Err(Failure::reject("broken")),
            _ => Err(Failure::retry("later").after(Duration::from_hours(1))),
        })
        .start()
        .unwrap();
    let add = |number| queue.add_unique(order(number).unique("a")).unwrap();
    inserted(add(1));
    counted(&worker, "it to be done", |counts| counts.done == 1);
    inserted(add(2));
    counted(&worker, "it to be dead", |counts| counts.dead == 1);
    let waiting = inserted(add(3));
    counted(&worker, "it to be retried", |counts| counts.retried == 1);
    assert_eq!(add(4), Unique::Existing(waiting), "a retry keeps the key");
    assert_eq!(queue.database().cancel(waiting).unwrap(), Cancelled::Dead);
    let last = inserted(add(1));
    counted(&worker, "the last to be done", |counts| counts.done == 2);
    assert_eq!(held(&test), [], "job {last} is done");
    stop(worker);
    let letters = queue.database().letters(&Letters::queue("orders")).unwrap();
    assert_eq!(letters.len(), 2);
    let keys = "SELECT count(*) FROM redrive.letters WHERE unique_key = 'a'";
    let count: i64 = test.client().query_one(keys, &[]).unwrap().get(0);
    assert_eq!(count, 2, "a letter remembers its key");
}

#[test]
fn a_redrive_takes_the_key_again_or_leaves_the_letter_open() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let rejecting = worker(&queue)
        .handle(|_: &Job<Order>| Err(Failure::reject("broken")))
        .start()
        .unwrap();
    let mut dead = Vec::new();
    for number in 1..=3 {
        dead.push(inserted(
            queue.add_unique(order(number).unique("a")).unwrap(),
        ));
        drained(&queue);
    }
    dead.push(queue.add(order(4).unique("b")).unwrap());
    dead.push(queue.add(order(5)).unwrap());
    drained(&queue);
    stop(rejecting);
    assert_eq!(held(&test), []);

    let alive = inserted(queue.add_unique(order(6).unique("b")).unwrap());
    // Of three letters with one key the oldest goes back; the one whose key is in use stays.
    let mut redriven = db
        .redrive(&Letters::ids(dead.clone()), &Act::new())
        .unwrap();
    assert_eq!(redriven.redriven, [dead[0], dead[4]]);
    redriven.skipped.sort_by_key(|(id, _)| *id);
    assert_eq!(
        redriven.skipped,
        [1, 2, 3].map(|at| (dead[at], Skip::Conflict))
    );
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3);
    assert_eq!(
        held(&test),
        [("a".to_owned(), dead[0]), ("b".to_owned(), alive)]
    );
    assert_eq!(
        queue.add_unique(order(7).unique("a")).unwrap(),
        Unique::Existing(dead[0])
    );

    let healed = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    for left in [3, 1, 0] {
        drained(&queue);
        assert_eq!(letters_in(db, "orders", LetterState::Open), left);
        db.redrive(&Letters::queue("orders"), &Act::new()).unwrap();
    }
    drained(&queue);
    stop(healed);
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 5);
    assert_eq!(held(&test), []);
}

#[test]
fn a_letter_that_dies_again_frees_its_key_again() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Err(Failure::reject("broken")))
        .start()
        .unwrap();
    let id = queue.add(order(1).unique("a")).unwrap();
    for deaths in 1..=2 {
        counted(&worker, "its death", |counts| counts.dead == deaths);
        assert_eq!(held(&test), []);
        if deaths == 1 {
            db.redrive(&Letters::ids([id]), &Act::new()).unwrap();
        }
    }
    stop(worker);
    let keys = "SELECT unique_key FROM redrive.letters";
    let key: String = test.client().query_one(keys, &[]).unwrap().get(0);
    assert_eq!(key, "a");
}

#[test]
fn keyed_and_unkeyed_jobs_of_one_lease_are_settled_together() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(8)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let hold = |_| NewJob::new(&Hold {}).unwrap();
    let mut jobs: Vec<NewJob> = (0..8).map(hold).collect();
    jobs[2] = hold(2).unique("c");
    jobs[5] = hold(5).unique("f");
    queue.add_many(jobs).unwrap();
    gate.wait_for(8);
    let leases = "SELECT max(cardinality(jobs)) FROM redrive.leases";
    let largest: i32 = test.client().query_one(leases, &[]).unwrap().get(0);
    assert!(largest > 1, "no lease has several jobs");
    assert_eq!(held(&test).len(), 2);
    gate.open();
    counted(&worker, "all done", |counts| counts.done == 8);
    assert_eq!((held(&test), stop(worker).counts.lost), (vec![], 0));
}

#[test]
fn a_crash_keeps_the_key_until_the_job_dies_of_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let id = inserted(
        queue
            .add_unique(NewJob::new(&Hold {}).unwrap().unique("a"))
            .unwrap(),
    );
    for crash in 1..=3 {
        let worker = worker(&queue)
            .handle({
                let gate = gate.clone();
                move |_: &Job<Hold>| {
                    gate.pass();
                    Ok(())
                }
            })
            .start()
            .unwrap();
        gate.wait_for(crash);
        let lost = lose_leases(&mut test.client());
        // Not stopped: it is gone, and what it would give back is somebody else's.
        drop(worker);
        if crash < 3 {
            assert_eq!(lost, [Lost::Back(id)]);
            assert_eq!(
                queue.add(order(1).unique("a")).unwrap(),
                id,
                "crash {crash}"
            );
        } else {
            assert_eq!(lost, [Lost::Dead(id)]);
            assert_eq!(held(&test), []);
        }
    }
    gate.open();
}

#[test]
fn a_release_a_promotion_and_a_new_priority_keep_the_key() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let id = inserted(
        queue
            .add_unique(order(1).unique("a").delay(Duration::from_hours(1)))
            .unwrap(),
    );
    let key = || {
        let asked = "SELECT unique_key FROM redrive.live_jobs WHERE id = $1";
        let row = test.client().query_one(asked, &[&id.get()]).unwrap();
        row.get::<_, Option<String>>(0)
    };
    assert!(db.set_priority(id, 7).unwrap());
    test.client()
        .execute(
            "UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 hour'",
            &[],
        )
        .unwrap();
    let gate = Gate::new();
    let held_up = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Order>| {
                gate.pass();
                Err(Failure::retry("cut off"))
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    assert_eq!(key().as_deref(), Some("a"), "in its lease");
    held_up.stop(Duration::ZERO).unwrap();
    gate.open();
    assert_eq!(key().as_deref(), Some("a"), "given back");
    assert!(db.set_priority(id, 8).unwrap());
    // A ring that moves it on.
    test.client()
        .batch_execute("UPDATE redrive.ring SET segment = 3; INSERT INTO redrive.jobs (segment, queue, kind, payload) SELECT 3, 'x', 'x', '{}' FROM generate_series(1, 500)")
        .unwrap();
    let step: String = test
        .client()
        .query_one("SELECT redrive.turn_ring(8192, 1000)", &[])
        .unwrap()
        .get(0);
    assert_eq!(step, "moved");
    assert_eq!(key().as_deref(), Some("a"), "moved on");
    assert_eq!(held(&test), [("a".to_owned(), id)]);
}

#[test]
fn a_handlers_own_transaction_frees_the_key_and_nobody_waits_for_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle_in_transaction({
            let gate = gate.clone();
            move |_: &Job<Order>, _: &mut Transaction<'_>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = inserted(queue.add_unique(order(1).unique("a")).unwrap());
    gate.wait_for(1);
    // Answered while the transaction is open.
    assert_eq!(
        queue.add_unique(order(2).unique("a")).unwrap(),
        Unique::Existing(id)
    );
    gate.open();
    counted(&worker, "it to be done", |counts| counts.done == 1);
    inserted(queue.add_unique(order(3).unique("a")).unwrap());
    counted(&worker, "the next to be done", |counts| counts.done == 2);
    stop(worker);
    assert_eq!(held(&test), []);
}

#[test]
fn a_rolled_back_enqueue_leaves_no_key() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    inserted(queue.add_unique_in(&mut tx, order(1).unique("a")).unwrap());
    tx.rollback().unwrap();
    assert_eq!(held(&test), []);
    let mut tx = client.transaction().unwrap();
    let id = inserted(queue.add_unique_in(&mut tx, order(1).unique("a")).unwrap());
    tx.commit().unwrap();
    assert_eq!(held(&test), [("a".to_owned(), id)]);
}

#[test]
fn the_sql_function_takes_a_key_and_refuses_a_bad_one() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let call = "SELECT redrive.enqueue('orders', 'order', '{\"number\": 1}', unique_key => $1)";
    let mut ask = |key: Option<&str>| {
        client
            .query_one(call, &[&key])
            .map(|row| row.get::<_, i64>(0))
    };
    let first = ask(Some("a")).unwrap();
    assert_eq!(ask(Some("a")).unwrap(), first);
    assert_ne!(ask(None).unwrap(), ask(None).unwrap());
    assert_eq!(ask(Some(&"x".repeat(200))).unwrap(), first + 4);
    for bad in [String::new(), "x".repeat(201)] {
        let error = ask(Some(&bad)).expect_err("a bad key");
        let said = error.as_db_error().expect("of the server").message();
        assert!(said.starts_with("redrive: the unique key has"), "{said}");
    }
    let queue = test.queue("orders");
    let Unique::Existing(id) = queue.add_unique(order(2).unique("a")).unwrap() else {
        panic!("the library and the function are one")
    };
    assert_eq!(id.get(), first);
}

#[test]
fn enqueues_of_a_key_that_is_being_freed_lose_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let worker = worker(&queue)
        .slots(4)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    let enqueuers: Vec<_> = (0..4)
        .map(|_| {
            let queue: Queue = test.queue("orders");
            thread::spawn(move || {
                let mut stored = 0;
                for number in 0..200 {
                    let added = queue.add_unique(order(number).unique((number % 2).to_string()));
                    stored += u64::from(matches!(added.unwrap(), Unique::Inserted(_)));
                }
                stored
            })
        })
        .collect();
    let stored: u64 = enqueuers
        .into_iter()
        .map(|enqueuer| enqueuer.join().expect("an enqueuer"))
        .sum();
    drained(&queue);
    counted(&worker, "all done", |counts| counts.done == stored);
    assert_eq!(stop(worker).counts.lost, 0);
    assert_eq!((tally.jobs() as u64, tally.repeated()), (stored, vec![]));
    assert_eq!(held(&test), []);
}
