//! Jobs of a kind that no live worker handles die after the configured time, if there is one.

use std::time::Duration;

use redrive::admin::JobFilter;
use redrive::dlq::{DeathCause, LetterFilter};
use redrive::{Enqueued, Job, NewJob};
use redrive_tests::{Order, SOON, TestDatabase, no_drift, stop, wait_until, worker};

#[test]
fn jobs_die_once_no_live_worker_has_handled_their_kind_for_the_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let job = |kind: &str| NewJob::raw(kind, "{}").unwrap();
    let jobs: Vec<NewJob> = (0..700).map(|_| job("retired")).collect();
    queue.enqueue_jobs(&jobs).unwrap();
    let unique = job("retired").unique("today");
    queue.enqueue_job(unique.clone()).unwrap();
    queue.enqueue_job(job("elsewhere")).unwrap();
    test.queue("mails").enqueue_job(job("retired")).unwrap();
    // Another process handles this kind, but its slots are busy.
    let other = "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at)
                 VALUES (gen_random_uuid(), 'orders', 'web-2', 7, '1', 1, '{elsewhere}', now() + interval '1 hour')";
    test.client().execute(other, &[]).unwrap();

    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .unhandled_after(Duration::from_secs(1))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let letters = LetterFilter::new().cause(DeathCause::Unhandled);
    wait_until("the retired jobs to die", SOON, || {
        db.dlq().count(&letters).unwrap().letters == 701
    });
    let letter = &db.dlq().list(&letters).unwrap()[0];
    assert_eq!(
        (&*letter.kind, &*letter.error_class),
        ("retired", "unhandled")
    );
    assert_eq!(
        letter.error_message,
        "no live worker of the queue has handled the kind `retired` for 1s"
    );
    assert_eq!((letter.attempts, letter.audit), (0, None));
    // Jobs of kinds that are handled elsewhere, and of other queues, wait.
    let waiting = db.admin().jobs().list(&JobFilter::new()).unwrap();
    let waiting: Vec<_> = waiting
        .iter()
        .map(|job| (&*job.queue, &*job.kind))
        .collect();
    assert_eq!(waiting, [("orders", "elsewhere"), ("mails", "retired")]);
    let again = queue.enqueue_job(unique).unwrap();
    assert!(matches!(again, Enqueued::New(_)), "the key is free");
    stop(worker);
    no_drift(db);
}

#[test]
fn a_time_out_of_range_is_rejected() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    for time in [Duration::from_millis(999), Duration::from_hours(721)] {
        let started = worker(&queue)
            .unhandled_after(time)
            .handle(|_: &Job<Order>| Ok(()))
            .start();
        let error = started.expect_err("out of range");
        assert!(error.is_invalid(), "{error}");
        assert!(error.to_string().contains("1 s to 30 days"), "{error}");
    }
}
