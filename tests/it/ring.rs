//! The ring: segments are filled, drained and truncated in turn, and no job notices.

use std::thread;

use postgres::Client;
use redrive::{Job, JobId, Queue};
use redrive_tests::{Order, SOON, Tally, TestDatabase, counted, drained, stop, wait_until, worker};

/// One step of the ring, with segments of one page.
fn step(client: &mut Client) -> String {
    client
        .query_one("SELECT redrive.turn_ring(8192, 1000)", &[])
        .unwrap()
        .get(0)
}

/// The bytes of each segment.
fn sizes(client: &mut Client) -> Vec<i64> {
    let asked = "SELECT pg_relation_size(format('redrive.jobs_%s', n)::regclass) FROM generate_series(0, 3) n";
    client
        .query(asked, &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

fn current(client: &mut Client) -> i16 {
    client
        .query_one("SELECT segment FROM redrive.ring", &[])
        .unwrap()
        .get(0)
}

/// A worker that counts what it runs.
fn counting(queue: &Queue, slots: usize, tally: &Tally) -> redrive::Worker {
    let tally = tally.clone();
    worker(queue)
        .slots(slots)
        .handle(move |job: &Job<Order>| {
            tally.count(job.id());
            Ok(())
        })
        .start()
        .unwrap()
}

#[test]
fn the_ring_turns_under_load_and_loses_no_job() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let worker = counting(&test.queue("orders"), 2, &tally);
    let producer = thread::spawn(move || {
        (0..80)
            .flat_map(|_| queue.enqueue_many(&Order::up_to(150)).unwrap())
            .collect::<Vec<JobId>>()
    });
    let mut client = test.client();
    let (mut turned, mut truncated) = (0, 0);
    wait_until("the producer to end", SOON, || {
        match &*step(&mut client) {
            "turned" => turned += 1,
            "truncated" => truncated += 1,
            _ => {}
        }
        producer.is_finished()
    });
    let ids = producer.join().expect("the producer");
    drained(&test.queue("orders"));
    counted(&worker, "all done", |counts| counts.done == 12_000);
    assert_eq!(stop(worker).counts.lost, 0);
    assert_eq!((tally.jobs(), tally.repeated()), (ids.len(), vec![]));
    assert!(
        turned >= 4 && truncated >= 3,
        "turned {turned} times, truncated {truncated} times"
    );
    // At rest, every segment but the current one gives its space back.
    wait_until("the ring to be at rest", SOON, || {
        step(&mut client) == "nothing"
    });
    let sizes = sizes(&mut client);
    assert!(
        sizes.iter().filter(|bytes| **bytes > 0).count() <= 1,
        "{sizes:?}"
    );
}

#[test]
fn a_reader_blocks_the_truncation_and_nothing_else() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let worker = counting(&queue, 2, &tally);
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    drained(&queue);
    let mut client = test.client();
    assert_eq!(step(&mut client), "turned");
    let old = sizes(&mut client);

    // pg_dump, or an analyst with a transaction left open.
    let mut reader = test.client();
    let mut open = reader.transaction().unwrap();
    open.query("SELECT count(*) FROM redrive.jobs", &[])
        .unwrap();
    for _ in 0..5 {
        assert_ne!(step(&mut client), "truncated");
    }
    assert_eq!(sizes(&mut client)[0], old[0], "segment 0 keeps its space");
    // The queue runs on.
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    open.rollback().unwrap();
    wait_until("the truncation to succeed", SOON, || {
        step(&mut client);
        sizes(&mut client)[0] == 0
    });
    assert_eq!(stop(worker).counts.done, 1001);
}

#[test]
fn the_jobs_of_a_paused_queue_move_on_to_free_their_segment() {
    let test = TestDatabase::migrated();
    let (paused, busy) = (test.queue("paused"), test.queue("busy"));
    let ids = paused.enqueue_many(&Order::up_to(7)).unwrap();
    let before = paused.database().job(ids[3]).unwrap().expect("a live job");
    let tally = Tally::new();
    let worker = counting(&busy, 2, &tally);
    let mut client = test.client();
    let mut steps = Vec::new();
    for _ in 0..10 {
        busy.enqueue_many(&Order::up_to(300)).unwrap();
        drained(&busy);
        wait_until("the ring to be at rest", SOON, || {
            let step = step(&mut client);
            let at_rest = step == "nothing" || step == "turned";
            steps.push(step);
            at_rest
        });
    }
    assert!(steps.iter().any(|step| step == "moved"), "{steps:?}");
    assert!(
        steps.iter().filter(|step| *step == "turned").count() >= 5,
        "it turns on: {steps:?}"
    );
    let rows = client
        .query(
            "SELECT id FROM redrive.jobs WHERE queue = 'paused' ORDER BY id",
            &[],
        )
        .unwrap();
    let left: Vec<JobId> = rows.iter().map(|row| JobId::new(row.get(0))).collect();
    assert_eq!(left, ids, "each is there once");
    let after = paused.database().job(ids[3]).unwrap().expect("a live job");
    assert_eq!(
        (after.since, after.enqueued_at),
        (before.since, before.enqueued_at)
    );
    stop(worker);
    let tally = Tally::new();
    // With one slot they also run in the order in which they are claimed.
    let worker = counting(&paused, 1, &tally);
    drained(&paused);
    stop(worker);
    assert_eq!(tally.order(), ids, "and in their order");
}

#[test]
fn a_backlog_is_not_moved_but_waited_for() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    // Segment 0 holds a backlog, segment 3 is current and full: the ring wants to turn.
    client
        .batch_execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT s, 'orders', 'order', '{\"number\": 1}' FROM generate_series(1, 2000), (VALUES (0), (3)) v (s); \
             UPDATE redrive.ring SET segment = 3",
        )
        .unwrap();
    assert_eq!(step(&mut client), "nothing");
    assert_eq!(current(&mut client), 3);
    let queue = test.queue("orders");
    let tally = Tally::new();
    let worker = counting(&queue, 2, &tally);
    drained(&queue);
    stop(worker);
    assert_eq!((tally.jobs(), tally.repeated()), (4000, vec![]));
    wait_until("the ring to turn", SOON, || {
        step(&mut client);
        current(&mut client) == 0
    });
}

#[test]
fn an_enqueue_that_commits_late_keeps_its_segment() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let mut late = test.client();
    let mut tx = late.transaction().unwrap();
    let id = queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    // Meanwhile the ring turns around as far as it can.
    let tally = Tally::new();
    let busy = test.queue("busy");
    let worker = counting(&busy, 2, &tally);
    let mut client = test.client();
    for _ in 0..6 {
        busy.enqueue_many(&Order::up_to(300)).unwrap();
        drained(&busy);
        for _ in 0..6 {
            step(&mut client);
        }
    }
    stop(worker);
    tx.commit().unwrap();
    assert!(
        queue.database().job(id).unwrap().is_some(),
        "an uncommitted job was truncated away"
    );
    let worker = counting(&queue, 2, &tally);
    drained(&queue);
    stop(worker);
    assert_eq!(tally.of(id), 1);
}

#[test]
fn one_turner_at_a_time_gets_to_work() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    let mut one = test.client();
    let mut tx = one.transaction().unwrap();
    let first: String = tx
        .query_one("SELECT redrive.turn_ring(8192, 1000)", &[])
        .unwrap()
        .get(0);
    assert_eq!(first, "turned");
    assert_eq!(
        step(&mut test.client()),
        "nothing",
        "the other does not wait"
    );
    tx.commit().unwrap();
}
