//! Jobs of a kind that no live worker handles die after the configured time, if there is one.

use redrive::Workers;
use redrive_tests::prelude::*;

#[test]
fn jobs_die_once_no_live_worker_has_handled_their_kind_for_the_time() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let job = |kind: &str| NewJob::raw(kind, "{}").unwrap();
    queue.enqueue_jobs(&vec![job("retired"); 700]).unwrap();
    let unique = job("retired").unique("today");
    queue.enqueue_job(unique.clone()).unwrap();
    queue.enqueue_job(job("elsewhere")).unwrap();
    test.queue("mails").enqueue_job(job("retired")).unwrap();
    // Another process handles this kind, but its slots are busy. One that handled the other is lost.
    let other = "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at)
                 VALUES (gen_random_uuid(), 'orders', 'web-2', 7, '1', 1, '{elsewhere}', now() + interval '1 hour'),
                        (gen_random_uuid(), 'orders', 'web-3', 7, '1', 1, '{retired}', now() - interval '1 second')";
    test.sql(other);

    let worker = lively(&queue).unhandled_after(Duration::from_secs(1));
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    let letters = LetterFilter::new().cause(DeathCause::Unhandled);
    wait_until("the retired jobs to die", SOON, || {
        db.dlq().count(&letters).unwrap() == 701
    });
    let letter = &db.listed(&letters)[0];
    let error = (&*letter.kind, &*letter.error_class);
    assert_eq!(error, ("retired", "unhandled"));
    let why = "no live worker of the queue has handled the kind `retired` for 1s";
    assert_eq!(letter.error_message, why);
    assert_eq!((letter.attempts, letter.audit), (0, None));
    // Jobs of kinds that are handled elsewhere, and of other queues, wait.
    let waiting = db.admin().jobs().list(&JobFilter::new()).unwrap();
    let waiting = waiting.iter().map(|job| (&*job.queue, &*job.kind));
    assert!(waiting.eq([("orders", "elsewhere"), ("mails", "retired")]));
    let again = queue.enqueue_job(unique).unwrap();
    assert!(matches!(again, Enqueued::New(_)), "the key is free");
    stop(worker);
    no_drift(db);
}

#[test]
fn a_worker_that_renews_late_keeps_the_jobs_of_its_own_kinds() {
    let (test, queue) = TestDatabase::with_orders();
    // As if each renewal came after the end of the lease.
    let late = "NEW.expires_at := statement_timestamp()";
    test.before("INSERT OR UPDATE ON redrive.workers", late);
    let gate = Gate::new();
    let worker = lively(&queue).unhandled_after(Duration::from_secs(1));
    let worker = worker.runs(gate.passing::<Order>());
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    put(&queue, NewJob::raw("retired", "{}").unwrap());
    let letters = LetterFilter::new().cause(DeathCause::Unhandled);
    wait_until("the retired job to die", SOON, || {
        queue.database().dlq().count(&letters).unwrap() > 0
    });
    let died = queue.listed(&letters);
    assert!(died.iter().map(|letter| &*letter.kind).eq(["retired"]));
    gate.open();
    stop(worker);
}

#[test]
fn a_queue_whose_jobs_cannot_die_keeps_those_of_no_other_queue() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let refuse = "IF NEW.queue = 'orders' THEN RAISE EXCEPTION 'no'; END IF";
    test.before("INSERT ON redrive.dead_letters", refuse);
    for queue in [&queue, &test.queue("mails")] {
        put(queue, NewJob::raw("retired", "{}").unwrap());
    }
    let handlers = Handlers::new().handle(|_: &Job<Order>| Ok(()));
    let workers = Workers::builder(db)
        .queue("orders", 1, &handlers)
        .queue("mails", 1, &handlers);
    let short = |worker: WorkerBuilder| {
        let worker = worker.lease(Duration::from_secs(2));
        worker.unhandled_after(Duration::from_secs(1))
    };
    let worker = workers.each(short).start().unwrap();
    let letters = LetterFilter::new().cause(DeathCause::Unhandled);
    wait_until("the other job to die", SOON, || {
        db.dlq().count(&letters).unwrap() == 1
    });
    assert_eq!(&*db.listed(&letters)[0].queue, "mails");
    stop(worker);
}
