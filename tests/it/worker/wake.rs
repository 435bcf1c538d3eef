//! Wake-ups: an enqueue notifies only if a worker of its queue waits.

use postgres::fallible_iterator::FallibleIterator;
use redrive_tests::prelude::*;

/// Returns the queues notified since the last call. A final notification ends the wait.
pub(crate) fn notified(listener: &mut Client) -> Vec<String> {
    listener.sql("NOTIFY redrive_ready, 'the end of this test''s patience'");
    let mut notifications = listener.notifications();
    let mut arrived = notifications.timeout_iter(SOON);
    let mut queues = Vec::new();
    while let Some(notification) = arrived.next().unwrap() {
        if notification.payload().starts_with("the end") {
            return queues;
        }
        queues.push(notification.payload().to_owned());
    }
    panic!("the final notification did not arrive");
}

type MakeReady = fn(&Queue, &mut Client);

/// Every way to make jobs ready; each call adds one job or more.
const WAYS: [(&str, MakeReady); 7] = [
    ("one job", |queue, _| {
        queue.enqueue(&Order { number: 1 }).unwrap();
    }),
    ("a COPY of many", |queue, _| {
        queue.enqueue_many(&Order::up_to(1001)).unwrap();
    }),
    // A worker must wait for it.
    ("a delayed job", |queue, _| {
        put(queue, new_order(1).delay(Duration::from_mins(1)));
    }),
    ("the SQL function", |_, client| {
        client.sql("SELECT redrive.enqueue('orders', 'order', '{\"number\": 1}')");
    }),
    ("the caller's own transaction", |queue, client| {
        let mut tx = client.transaction().unwrap();
        for order in Order::up_to(3) {
            queue.enqueue_in(&mut tx, &order).unwrap();
        }
        tx.commit().unwrap();
    }),
    ("a redrive", |queue, _| {
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        queue.cancels(id);
        assert_eq!(queue.redrives(&only(id)).redriven, [id]);
    }),
    ("a reaping", |_, client| {
        client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, claimed_at) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', ARRAY[nextval('redrive.job_id')], '{order}', \
                    ARRAY['{}'::json], ARRAY[now()], now() - interval '1 hour'");
        assert_eq!(reap(client).len(), 1);
    }),
];

/// Inserts the row of a worker.
fn register(client: &mut Client, queue: &str, waiting: bool, expires: &str) {
    let insert = format!(
        "INSERT INTO redrive.workers \
             (worker_id, queue, host, pid, version, slots, waiting, expires_at) \
         VALUES (gen_random_uuid(), $1::text, 'h', 1, 'v', 1, $2, now() + interval '{expires}')"
    );
    client.change(&insert, &[&queue, &waiting]);
}

#[test]
fn every_way_to_enqueue_notifies_if_a_worker_waits() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let mut listener = test.client();
    listener.sql("LISTEN redrive_ready");
    // A busy worker, one of another queue, and a lost one.
    register(&mut client, "orders", false, "1 hour");
    register(&mut client, "other", true, "1 hour");
    register(&mut client, "orders", true, "-1 second");
    for (way, make_ready) in WAYS {
        make_ready(&queue, &mut client);
        assert_eq!(notified(&mut listener), [""; 0], "{way}");
    }
    register(&mut client, "orders", true, "1 hour");
    register(&mut client, "orders", true, "1 hour");
    for (way, make_ready) in WAYS {
        make_ready(&queue, &mut client);
        let queues = notified(&mut listener);
        assert!(!queues.is_empty(), "{way} sent no notification");
        let is_ours = queues.iter().all(|queue| queue == "orders");
        assert!(is_ours, "{way}: {queues:?}");
        // The redrive enqueues a job first.
        let most = if way == "a redrive" { 2 } else { 1 };
        assert!(queues.len() <= most, "{way}: {queues:?}");
    }
}

#[test]
fn a_job_that_no_slot_started_wakes_a_worker_although_its_session_ends() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    client.sql(
        "CREATE SEQUENCE public.tries; \
         CREATE OR REPLACE FUNCTION redrive.wake(queue text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
             IF current_query() LIKE '%redrive.wake(%' AND nextval('public.tries') = 1 THEN \
                 PERFORM pg_terminate_backend(pg_backend_pid()); \
             END IF; \
             RETURN true; \
         END $$",
    );
    let gate = Gate::new();
    let worker = worker(&queue).handle(gate.handler());
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(150)).unwrap();
    done(&worker, 150);
    let behind = [NewJob::new(&Hold {}).unwrap().priority(1), new_order(1)];
    queue.enqueue_jobs(&behind).unwrap();
    wait_until("a second try", SOON, || {
        scalar(&mut client, "SELECT last_value FROM public.tries") > 1
    });
    gate.open();
    finish(&queue, worker);
}
