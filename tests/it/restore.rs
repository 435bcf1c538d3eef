//! Restore: what was done since a backup is undone, and an operator can hold it before it runs again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use postgres::{Client, NoTls};
use redrive::{Act, Database, Failure, Job, LetterState, Letters, Queue};
use redrive_tests::{Cluster, Order, SOON, drained, letters_in, stats, stop, wait_until, worker};

/// What a server says of itself, as anybody may ask: which one it is, and on which timeline.
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

/// A worker that does what there is, and the numbers of the orders that it ran.
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
fn what_was_done_since_a_backup_waits_for_whoever_restored_it() {
    let cluster = Cluster::new();
    cluster.start();
    let db = cluster.migrate();
    cluster
        .client()
        .batch_execute("CREATE ROLE anybody LOGIN")
        .unwrap();
    let anybody = cluster.url().replace("postgres@", "anybody@");
    let queue = Queue::new(&db, "orders").unwrap();

    // Two letters that wait and five jobs that are ready: that is in the backup.
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
        .letters(&Letters::queue("orders"))
        .unwrap()
        .iter()
        .map(|letter| letter.id)
        .collect();
    db.redrive(&Letters::ids([ids[0]]), &Act::new()).unwrap();
    let gone = Act::new().why("not wanted");
    db.discard(&Letters::ids([ids[1]]), &gone).unwrap();
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

    // Whoever restores holds the queue first, and looks.
    let db: Database = redrive::connect(&cluster.url()).unwrap();
    let why = Act::new().why("restored from a backup");
    db.open_breaker("queue:orders", None, &why).unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let (worker, ran) = working(&queue);
    wait_until("the worker to be there", SOON, || {
        stats(&db, "orders").is_some_and(|stats| stats.workers == 1)
    });
    let held = stats(&db, "orders").expect("the queue");
    assert_eq!((held.ready, held.open), (5, 2), "as when it was backed up");
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 2);
    assert_eq!(*ran.lock().unwrap(), [0; 0], "nothing runs");

    // What is let go runs a second time; nothing else comes of it.
    assert!(db.close_breaker("queue:orders", &why).unwrap());
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 5);
    let ran: BTreeSet<i64> = ran.lock().unwrap().iter().copied().collect();
    assert_eq!(ran, (1..=5).collect());
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 2);
}
