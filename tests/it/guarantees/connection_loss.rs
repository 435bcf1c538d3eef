//! Connections that are cut under load.

use std::time::Duration;

use postgres::Client;
use redrive::dlq::LetterState;
use redrive::{Failure, Job, Queue};
use redrive_tests::{
    Begin, Dead, Order, SOON, Sql, Tally, TestDatabase, of_orders, stats, stop, wait_until, worker,
};

/// Cuts all other connections to the database and returns their number.
fn cut(client: &mut Client) -> usize {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query(end, &[]).expect("cut connections").len()
}

/// Waits until no job is live. Ages leases whose claim was never answered, because the worker
/// releases those after twice the call timeout.
fn drained_after_cuts(test: &TestDatabase, queue: &Queue) {
    let mut client = test.client();
    wait_until("the queue to be drained", SOON, || {
        client.sql("UPDATE redrive.leases SET claimed_at = now() - interval '1 minute' \
                 WHERE claimed_at < now() - interval '1 second' AND claimed_at > now() - interval '30 seconds'");
        queue.is_drained().unwrap_or(false)
    });
}

/// A producer that repeats what failed, a worker, and every connection cut again and again.
#[test]
fn connections_cut_under_load_lose_no_job_and_charge_no_attempt() {
    let test = TestDatabase::migrated();
    let tally = Tally::new();
    let worker = worker(&test.queue("orders"))
        .slots(2)
        .lease(Duration::from_secs(3))
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                match job.payload().number % 20 {
                    0 => Err(Failure::reject("hopeless")),
                    _ => Ok(()),
                }
            }
        })
        .started();
    let queue = test.queue("orders");
    let mut client = test.client();
    let (mut stored, mut hopeless, mut cuts) = (Vec::new(), 0, 0);
    for orders in Order::up_to(2000).chunks(2) {
        // An enqueue whose reply was lost may have been stored. The producer repeats it anyway.
        wait_until("the orders to be stored", SOON, || {
            hopeless += orders.iter().filter(|order| order.number % 20 == 0).count();
            match queue.enqueue_many(orders) {
                Ok(ids) => {
                    stored.extend(ids);
                    true
                }
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    false
                }
            }
        });
        if tally.jobs() >= cuts * 200 {
            cuts += 1;
            cut(&mut client);
        }
    }
    assert!(cuts >= 5, "{cuts} cuts");
    drained_after_cuts(&test, &queue);
    stop(worker);
    assert!(
        stored.iter().all(|id| tally.of(*id) >= 1),
        "what was acknowledged ran"
    );
    let open = of_orders().state(LetterState::Open).limit(10_000);
    let letters = queue.listed(&open);
    assert!(
        (100..=hopeless).contains(&letters.len()),
        "{}",
        letters.len()
    );
    for letter in letters {
        assert_eq!(letter.error_message, "hopeless");
        assert_eq!(
            letter.attempts, 1,
            "no attempt is charged for a fault of the database"
        );
    }
}

#[test]
fn a_job_whose_claim_reply_was_lost_returns_without_a_charge() {
    let (test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .started();
    // The remains of such a claim: a lease that the worker does not know.
    let mut client = test.client();
    client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, claimed_at) \
             SELECT gen_random_uuid(), w.worker_id, w.queue, \
                    '{7}', '{other}', ARRAY['{}'::json], ARRAY[now()], \
                    now() - interval '1 minute' \
             FROM redrive.workers w");
    wait_until("the job to be given back", SOON, || {
        stats(queue.database(), "orders").is_some_and(|stats| stats.ready == 1 && stats.leased == 0)
    });
    let job = queue.live(redrive::JobId::new(7));
    assert_eq!((job.attempts, job.crashes), (0, 0));
    stop(worker);
}
