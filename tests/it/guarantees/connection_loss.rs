//! Connections that are cut under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::Client;
use redrive::dlq::{LetterFilter, LetterState};
use redrive::{Failure, Job, Queue};
use redrive_tests::{
    Order, SOON, Tally, TestDatabase, letters_in, stats, stop, wait_until, worker,
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
        client
            .execute(
                "UPDATE redrive.leases SET claimed_at = now() - interval '1 minute' \
                 WHERE claimed_at < now() - interval '1 second' AND claimed_at > now() - interval '30 seconds'",
                &[],
            )
            .expect("age leases");
        queue.is_drained().unwrap_or(false)
    });
}

#[test]
fn connections_cut_under_load_lose_no_job_and_charge_no_attempt() {
    let test = TestDatabase::migrated();
    // A separate pool: only connections of the worker are cut.
    let queue = test.queue("orders");
    let ids = queue.enqueue_many(&Order::up_to(6000)).unwrap();
    let tally = Tally::new();
    let worker = worker(&test.queue("orders"))
        .slots(2)
        .lease(Duration::from_secs(3))
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                if job.payload().number % 20 == 0 {
                    Err(Failure::reject("hopeless"))
                } else {
                    Ok(())
                }
            }
        })
        .start()
        .unwrap();
    let mut client = test.client();
    let mut cuts = 0;
    for share in 1..=5 {
        wait_until("the load to continue", SOON, || {
            tally.jobs() >= share * 1000
        });
        cuts += cut(&mut client);
    }
    assert!(cuts >= 5, "{cuts} connections were cut");
    drained_after_cuts(&test, &queue);
    stop(worker);

    assert_eq!(tally.jobs(), ids.len(), "every job ran");
    let db = queue.database();
    let letters = db
        .dlq()
        .list(&LetterFilter::new().queue("orders").limit(10_000))
        .unwrap();
    assert_eq!(
        letters.len(),
        300,
        "each hopeless job died once, and no other"
    );
    for letter in letters {
        assert_eq!(
            (&*letter.error_message, letter.state),
            ("hopeless", LetterState::Open)
        );
        assert_eq!(
            letter.attempts, 1,
            "no attempt is charged for a fault of the database"
        );
    }
}

#[test]
fn a_producer_that_retries_failed_enqueues_loses_no_job() {
    let test = TestDatabase::migrated();
    let tally = Tally::new();
    let worker = worker(&test.queue("orders"))
        .lease(Duration::from_secs(3))
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let cutter = thread::spawn({
        let (mut client, over, tally) = (test.client(), Arc::clone(&over), tally.clone());
        move || {
            let mut next = 50;
            wait_until("the end of the load", SOON, || {
                if tally.jobs() >= next {
                    next += 150;
                    cut(&mut client);
                }
                over.load(Ordering::SeqCst)
            });
        }
    });
    let queue = test.queue("orders");
    let mut stored = Vec::new();
    for order in Order::up_to(1000) {
        // An enqueue whose reply was lost may have been stored. The producer repeats it anyway.
        wait_until("the order to be stored", SOON, || {
            match queue.enqueue(&order) {
                Ok(id) => {
                    stored.push(id);
                    true
                }
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    false
                }
            }
        });
    }
    over.store(true, Ordering::SeqCst);
    cutter.join().expect("the cutting thread");
    drained_after_cuts(&test, &queue);
    stop(worker);
    assert_eq!(stored.len(), 1000);
    assert!(
        stored.iter().all(|id| tally.of(*id) >= 1),
        "what was acknowledged ran"
    );
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 0);
}

#[test]
fn a_worker_that_lost_its_listening_connection_still_finds_jobs() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&test.queue("orders"))
        .poll_interval(Duration::from_secs(1))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let mut client = test.client();
    let mut waiting = || {
        client
            .query_one("SELECT bool_and(waiting) FROM redrive.workers", &[])
            .is_ok_and(|row| row.get(0))
    };
    wait_until("the worker to wait", SOON, &mut waiting);
    let listens = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    wait_until("its listening connection to be cut", SOON, || {
        !test.client().query(listens, &[]).unwrap().is_empty()
    });
    queue.enqueue(&Order { number: 1 }).unwrap();
    wait_until("the job to be found", SOON, || worker.stats().done == 1);
    stop(worker);
}

#[test]
fn a_job_whose_claim_reply_was_lost_returns_without_a_charge() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    // The remains of such a claim: a lease that the worker does not know.
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, claimed_at) \
             SELECT gen_random_uuid(), w.worker_id, w.queue, \
                    '{7}', '{other}', ARRAY['{}'::json], ARRAY[now()], \
                    now() - interval '1 minute' \
             FROM redrive.workers w",
        )
        .unwrap();
    wait_until("the job to be given back", SOON, || {
        stats(queue.database(), "orders").is_some_and(|stats| stats.ready == 1 && stats.leased == 0)
    });
    let job = queue
        .database()
        .admin()
        .job(redrive::JobId::new(7))
        .unwrap()
        .expect("a live job");
    assert_eq!((job.attempts, job.crashes), (0, 0));
    stop(worker);
}
