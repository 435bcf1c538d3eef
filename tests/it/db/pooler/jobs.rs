//! Enqueueing and running jobs through a pooler.

use redrive_tests::prelude::*;

use super::PooledDatabase;
use crate::worker::renewed_for;
use crate::worker::wake::notified;

#[test]
fn jobs_enqueued_in_every_way_complete_with_their_effects() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    queue.enqueue(&Order { number: 1 }).unwrap();
    queue.enqueue_many(&Order::up_to(10)).unwrap();
    // By COPY, and some of them later.
    let later = |number| Duration::from_millis(u64::from(number % 2 == 0));
    let many = (0..1500).map(|number| new_order(number).delay(later(number)));
    let many: Vec<NewJob> = many.collect();
    queue.enqueue_jobs(&many).unwrap();
    let unique = || queue.enqueue_job(new_order(2).unique("today")).unwrap();
    let first = unique();
    assert!(matches!(first, Enqueued::New(_)));
    assert_eq!(unique(), Enqueued::Existing(first.id()));

    // In the caller's own transaction, beside its own writes.
    let mut client = shared.client();
    client.sql("CREATE TABLE shop (n bigint)");
    for is_kept in [true, false] {
        let mut tx = client.transaction().unwrap();
        tx.change("INSERT INTO shop VALUES ($1)", &[&7_i64]);
        queue.enqueue_in(&mut tx, &Order { number: 3 }).unwrap();
        queue.enqueue_jobs_in(&mut tx, &many).unwrap();
        match is_kept {
            true => tx.commit().unwrap(),
            false => tx.rollback().unwrap(),
        }
    }
    assert_eq!(shared.number("SELECT count(*) FROM shop"), 1);

    client.sql("CREATE TABLE effects (number bigint NOT NULL)");
    let handler = |job: &Job<Order>, tx: &mut Transaction<'_>| {
        let number = job.payload().number;
        // With parameters, which the driver prepares, by name, for this transaction.
        tx.execute("INSERT INTO effects VALUES ($1)", &[&number])?;
        match (number % 5, job.attempt()) {
            (0, 1) => Err(Failure::retry("not yet")),
            _ => Ok(()),
        }
    };
    let worker = worker(&queue).slots(4).handle(handler).started();
    drained(&queue);
    let all = 1 + 10 + 1500 + 1 + 1 + 1500;
    done(&worker, all);
    let counts = stop(worker).stats;
    assert_eq!((counts.retried, counts.lost), (2 + 300 + 300, 0));
    let effects = shared.number("SELECT count(*) FROM effects");
    assert_eq!(effects.unsigned_abs(), all, "each commits with its job");
    shared.nothing_is_left();
    no_drift(queue.database());
}

#[test]
fn a_cancel_reaches_a_running_job_with_the_next_renewal() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let begun = Gate::new();
    begun.open();
    let builder = worker(&queue).lease(Duration::from_secs(3));
    let worker = builder.runs(begun.passing_to(|job: &Job<Hold>| {
        wait_until("the cancel", SOON, || job.is_cancelled());
        Err(Failure::retry("asked to end"))
    }));
    let id = queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    let cancelled = queue.cancels(id);
    assert_eq!(cancelled, Cancelled::Asked);
    died(&worker, 1);
    stop(worker);
}

#[test]
fn a_worker_notices_breakers_and_pauses_without_a_notification() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let builder = worker(&queue).lease(Duration::from_secs(3));
    let worker = builder.runs(|_: &Job<Order>| Ok(()));
    let operator = Operator::default().reason("a test");
    let admin = queue.database().admin();
    for by_breaker in [true, false] {
        match by_breaker {
            true => admin.open_breaker("queue:orders", None, &operator).unwrap(),
            false => queue.pause(PauseEnd::Resumed, &operator).unwrap(),
        }
        renewed_for(&mut shared.test.client(), 2500);
        let before = worker.stats().done;
        queue.enqueue_many(&Order::up_to(8)).unwrap();
        renewed_for(&mut shared.test.client(), 2500);
        assert_eq!(worker.stats().done, before, "it has learnt that it may not");
        let is_open = match by_breaker {
            true => admin.close_breaker("queue:orders", &operator),
            false => queue.resume(&operator),
        };
        assert!(is_open.unwrap());
        done(&worker, before + 8);
    }
    stop(worker);
    shared.nothing_is_left();
}

#[test]
fn an_idle_worker_polls_and_no_notification_is_sent() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let mut listener = shared.test.client();
    listener.sql("LISTEN redrive_ready");
    // The default poll interval.
    let worker = Worker::builder(&queue).slots(1);
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    for round in 1..=3 {
        queue.enqueue(&Order { number: 1 }).unwrap();
        put(&queue, new_order(2).delay(Duration::from_millis(200)));
        done(&worker, 2 * round);
        let waiting = "SELECT count(*) FROM redrive.workers WHERE waiting";
        assert_eq!(shared.number(waiting), 0);
    }
    assert_eq!(notified(&mut listener), [""; 0]);
    stop(worker);
}
