//! Restore: jobs finished since a backup are back, and an operator can hold them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use postgres::{Client, NoTls};
use redrive::dlq::{LetterFilter, LetterState};
use redrive::{Database, Failure, Job, Operator, PauseEnd, Queue};
use redrive_tests::{Cluster, Order, SOON, drained, letters_in, stats, stop, wait_until, worker};

/// Returns the identity and the timeline of a server, as any role can read them.
fn identity(url: &str) -> (i64, i32, String) {
    let mut plain = Client::connect(url, NoTls).unwrap();
    let row = plain
        .query_one(
            "SELECT s.system_identifier, c.timeline_id, \
                    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) \
             FROM pg_control_system() s, pg_control_checkpoint() c",
            &[],
        )
        .unwrap();
    (row.get(0), row.get(1), row.get(2))
}

/// Drains the queue and returns the numbers of the orders that ran.
fn working(queue: &Queue) -> (redrive::Worker, Arc<Mutex<Vec<i64>>>) {
    let ran: Arc<Mutex<Vec<i64>>> = Arc::default();
    let worker = worker(queue)
        .handle({
            let ran = Arc::clone(&ran);
            move |job: &Job<Order>| {
                ran.lock().unwrap().push(job.payload().number);
                match (job.payload().number, job.generation()) {
                    (100.., 0) => Err(Failure::reject("broken")),
                    _ => Ok(()),
                }
            }
        })
        .start()
        .unwrap();
    (worker, ran)
}

#[test]
fn queues_of_a_restored_backup_can_be_held_before_jobs_run_again() {
    let cluster = Cluster::new();
    cluster.start();
    let db = cluster.migrate();
    cluster
        .client()
        .batch_execute("CREATE ROLE anybody LOGIN")
        .unwrap();
    let anybody = cluster.url().replace("postgres@", "anybody@");
    let queue = Queue::new(&db, "orders").unwrap();

    // The backup contains two open letters and five ready jobs.
    for number in [100, 101] {
        queue.enqueue(&Order { number }).unwrap();
    }
    let (first, _) = working(&queue);
    drained(&queue);
    stop(first);
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    cluster.back_up();
    let before = identity(&anybody);

    // Since then: the jobs are done, a letter has recovered, the other is discarded.
    let (second, ran) = working(&queue);
    let ids: Vec<_> = db
        .dlq()
        .list(&LetterFilter::new().queue("orders"))
        .unwrap()
        .iter()
        .map(|letter| letter.id)
        .collect();
    db.dlq()
        .redrive(&LetterFilter::new().ids([ids[0]]), &Operator::default())
        .unwrap();
    let gone = Operator::default().reason("not wanted");
    db.dlq()
        .discard(&LetterFilter::new().ids([ids[1]]), &gone)
        .unwrap();
    drained(&queue);
    stop(second);
    assert_eq!(ran.lock().unwrap().len(), 6);
    drop((queue, db));

    cluster.stop();
    cluster.restore();
    cluster.start();
    assert_eq!(
        identity(&anybody),
        before,
        "the server itself says nothing of it: a worker could not know"
    );

    // The operator pauses the queue first.
    let db: Database = redrive::connect(&cluster.url()).unwrap();
    let why = Operator::default().reason("restored from a backup");
    let queue = Queue::new(&db, "orders").unwrap();
    queue.pause(PauseEnd::Resumed, &why).unwrap();
    let (worker, ran) = working(&queue);
    wait_until("the worker to be there", SOON, || {
        stats(&db, "orders").is_some_and(|stats| stats.workers == 1)
    });
    let held = stats(&db, "orders").expect("the queue");
    assert_eq!((held.ready, held.open), (5, 2), "as when it was backed up");
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 2);
    assert_eq!(*ran.lock().unwrap(), [0; 0], "nothing runs");

    // The jobs run a second time, with no other effect.
    assert!(queue.resume(&why).unwrap());
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 5);
    let ran: BTreeSet<i64> = ran.lock().unwrap().iter().copied().collect();
    assert_eq!(ran, (1..=5).collect());
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 2);
}
