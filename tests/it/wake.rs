//! Wake-ups: an enqueue notifies when a worker of its queue waits, and only then.

use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use redrive::{Act, Job, Letters, NewJob};
use redrive_tests::{Order, SOON, TestDatabase, reap, stop, wait_until, worker};

/// The queues that were notified since the last call; a notification of our own ends the wait.
pub(crate) fn notified(listener: &mut Client) -> Vec<String> {
    listener
        .batch_execute("NOTIFY redrive_ready, 'the end of this test''s patience'")
        .unwrap();
    let mut notifications = listener.notifications();
    let mut arrived = notifications.timeout_iter(SOON);
    let mut queues = Vec::new();
    while let Some(notification) = arrived.next().unwrap() {
        if notification.payload().starts_with("the end") {
            return queues;
        }
        queues.push(notification.payload().to_owned());
    }
    panic!("the listener heard nothing of itself");
}

/// A way by which jobs become ready: its name, and a call.
type WayIn = (&'static str, Box<dyn FnMut()>);

/// Every way by which jobs become ready, one call each; each adds one job or more.
fn ways_in(test: &TestDatabase) -> Vec<WayIn> {
    let queue = test.queue("orders");
    let order = Order { number: 1 };
    let (one, bulk, later) = (queue.clone(), queue.clone(), queue.clone());
    let (mut sql, mut own, mut lost) = (test.client(), test.client(), test.client());
    vec![
        (
            "one job",
            Box::new(move || _ = one.enqueue(&order).unwrap()),
        ),
        (
            "a COPY of many",
            Box::new(move || drop(bulk.enqueue_many(&Order::up_to(1001)).unwrap())),
        ),
        (
            "a delayed job, whose moment somebody has to wait for",
            Box::new(move || {
                let new = NewJob::new(&Order { number: 1 }).unwrap();
                later.add(new.delay(Duration::from_mins(1))).unwrap();
            }),
        ),
        (
            "the SQL function",
            Box::new(move || {
                let call = "SELECT redrive.enqueue('orders', 'order', '{\"number\": 1}')";
                sql.query(call, &[]).unwrap();
            }),
        ),
        (
            "the caller's own transaction",
            Box::new({
                let queue = queue.clone();
                move || {
                    let mut tx = own.transaction().unwrap();
                    for order in Order::up_to(3) {
                        queue.enqueue_in(&mut tx, &order).unwrap();
                    }
                    tx.commit().unwrap();
                }
            }),
        ),
        (
            "a redrive",
            Box::new(move || {
                let id = queue.enqueue(&Order { number: 1 }).unwrap();
                let db = queue.database();
                db.cancel(id).unwrap();
                let redriven = db.redrive(&Letters::ids([id]), &Act::new()).unwrap();
                assert_eq!(redriven.redriven, [id]);
            }),
        ),
        (
            "a reaping",
            Box::new(move || {
                lost.batch_execute(
                    "INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs, claimed_at) \
                     SELECT gen_random_uuid(), gen_random_uuid(), 'orders', \
                            ARRAY[ROW(nextval('redrive.job_id'), 'order', 0, '{}', 1, 5, 0, 0, 0, \
                                      now(), NULL, NULL, NULL)::redrive.leased_job], \
                            now() - interval '1 hour'",
                )
                .unwrap();
                let reaped = reap(&mut lost);
                assert_eq!(reaped.len(), 1);
            }),
        ),
    ]
}

/// A worker of a queue, as the database knows it.
fn register(client: &mut Client, queue: &str, waiting: bool, expires: &str) {
    let insert = format!(
        "INSERT INTO redrive.workers \
             (worker_id, queue, host, pid, version, slots, waiting, expires_at) \
         VALUES (gen_random_uuid(), $1::text, 'h', 1, 'v', 1, $2, now() + interval '{expires}')"
    );
    client.execute(&insert, &[&queue, &waiting]).unwrap();
}

#[test]
fn every_way_in_notifies_when_a_worker_of_the_queue_waits() {
    let test = TestDatabase::migrated();
    let mut listener = test.client();
    listener.batch_execute("LISTEN redrive_ready").unwrap();
    let mut client = test.client();
    register(&mut client, "orders", true, "1 hour");
    register(&mut client, "orders", true, "1 hour");
    for (way, mut go) in ways_in(&test) {
        go();
        let queues = notified(&mut listener);
        assert!(!queues.is_empty(), "{way} told nobody");
        assert!(
            queues.iter().all(|queue| queue == "orders"),
            "{way}: {queues:?}"
        );
        // The redrive enqueues first, to have something to redrive.
        let most = if way == "a redrive" { 2 } else { 1 };
        assert!(queues.len() <= most, "{way} told {} times", queues.len());
    }
}

#[test]
fn nothing_notifies_when_nobody_waits() {
    let test = TestDatabase::migrated();
    let mut listener = test.client();
    listener.batch_execute("LISTEN redrive_ready").unwrap();
    let mut client = test.client();
    // One that is busy, one of another queue, and one that is gone.
    register(&mut client, "orders", false, "1 hour");
    register(&mut client, "other", true, "1 hour");
    register(&mut client, "orders", true, "-1 second");
    for (way, mut go) in ways_in(&test) {
        go();
        assert_eq!(notified(&mut listener), [""; 0], "{way}");
    }
}

#[test]
fn a_waiting_worker_is_woken_by_an_enqueue() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    // It looks once a minute: what runs within the deadline of the test was told.
    let worker = worker(&queue)
        .poll(Duration::from_mins(1))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let waiting = || {
        test.client()
            .query_one("SELECT bool_and(waiting) FROM redrive.workers", &[])
            .unwrap()
            .get(0)
    };
    // From Rust, in bulk, from SQL, and by a redrive: every way in wakes.
    for round in 1..=4 {
        wait_until("the worker to wait", SOON, waiting);
        let deadline = Duration::from_secs(20);
        match round {
            1 => _ = queue.enqueue(&Order { number: 1 }).unwrap(),
            2 => drop(queue.enqueue_many(&Order::up_to(1001)).unwrap()),
            3 => drop(
                test.client()
                    .query(
                        "SELECT redrive.enqueue('orders', 'order', '{\"number\":1}')",
                        &[],
                    )
                    .unwrap(),
            ),
            _ => {
                let letter = "INSERT INTO redrive.dead_letters \
                     (queue, kind, reason, error_class, error_message, enqueued_at, payload) \
                     VALUES ('orders', 'order', 'rejected', 'c', 'm', now(), '{\"number\":1}')";
                test.client().execute(letter, &[]).unwrap();
                let redriven = queue
                    .database()
                    .redrive(&Letters::queue("orders"), &Act::new())
                    .unwrap();
                assert_eq!(redriven.redriven.len(), 1);
            }
        }
        wait_until(
            &format!("way in number {round} to wake it"),
            deadline,
            || queue.is_drained().unwrap(),
        );
    }
    stop(worker);
}
