//! Finished jobs that are kept for a time.

use redrive_tests::prelude::*;

fn kept(db: &Database, filter: &str) -> Vec<LiveJob> {
    let filter = format!("state=done {filter}");
    let jobs = db.admin().jobs();
    jobs.list(&filter.parse().expect("a filter")).unwrap()
}

fn new<P: Payload>(payload: &P) -> NewJob {
    NewJob::new(payload).unwrap()
}

#[test]
fn jobs_of_every_kind_of_handler_are_kept_with_their_facts_and_without_payload() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let worker = worker(&queue)
        .keep_done(DAY)
        .handle(|job: &Job<Order>| match job.attempt() {
            1 => Err(Failure::retry("once more")),
            _ => Ok(job.then(NewJob::raw("step", "{}")?)?),
        })
        .handle(|_: &Job<HoldTransaction>, _: &mut Transaction<'_>| Ok(()))
        .handle_batch(BatchOptions::new(2), |_: &Batch<Finish>| Ok(()))
        .handle(|job: &Job<Hold>| match job.generation() {
            0 => Err(Failure::reject("not yet")),
            _ => Ok(()),
        })
        .handle_any(|_| Ok(()))
        .started();
    let order = new(&Order { number: 1 });
    let order = put(&queue, order.priority(3).unique("one").max_attempts(4));
    let own = put(&queue, new(&HoldTransaction::InStatement));
    let batched = put(&queue, new(&Finish {}));
    let redriven = put(&queue, new(&Hold {}));
    let any = put(&queue, NewJob::raw("step", r#"{"secret": 1}"#).unwrap());
    drained(&queue);
    assert!(db.admin().job(redriven).unwrap().is_none(), "it is dead");
    queue.redrives(&only(redriven));
    finish(&queue, worker);

    let done = kept(db, "");
    let ids: Vec<JobId> = done.iter().map(|job| job.id).collect();
    assert_eq!(ids[..5], [order, own, batched, redriven, any]);
    assert_eq!(done[3].generation, 1);
    assert_eq!(done[5].kind, "step", "a follow-up is kept as well");
    for job in &done {
        assert_eq!((job.state, job.payload.get()), (JobState::Done, "null"));
        assert!(job.enqueued_at <= job.since);
        assert_eq!(db.admin().job(job.id).unwrap().expect("kept").id, job.id);
    }
    let first = (done[0].attempts, done[0].max_attempts, done[0].priority);
    assert_eq!(first, (2, 4, 3));
    assert_eq!(kept(db, "kind=step").len(), 2);
    let page: JobFilter = "queue=orders state=done".parse().unwrap();
    let rest = page.limit(3).after(ids[2]);
    let rest = db.admin().jobs().list(&rest).unwrap();
    assert!(rest.iter().map(|job| job.id).eq(ids[3..].iter().copied()));
    assert!(kept(db, "queue=mails").is_empty());
}

#[test]
fn only_kinds_that_ask_for_it_are_kept_and_a_finished_job_is_not_live() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let worker = worker(&queue).handle(|_: &Job<Order>| Ok(()));
    let worker = worker.options(HandlerOptions::new().keep_done(DAY));
    let worker = worker.runs(|_: &Job<Finish>| Ok(()));
    let order = put(&queue, new(&Order { number: 1 }));
    let other = put(&queue, new(&Finish {}));
    finish(&queue, worker);

    let ids: Vec<JobId> = kept(db, "").iter().map(|job| job.id).collect();
    assert_eq!(ids, [order]);
    let admin = db.admin();
    assert!(admin.job(other).unwrap().is_none());
    for filter in ["", "state=any", "state=ready,delayed,leased"] {
        let filter = filter.parse().unwrap();
        assert!(admin.jobs().list(&filter).unwrap().is_empty(), "{filter}");
    }
    let cancelled = admin.jobs().cancel(order, &maria()).unwrap();
    assert_eq!(cancelled, Cancelled::NotLive);
}

#[test]
fn rows_are_hidden_at_the_end_of_their_time_and_their_slot_is_truncated() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let insert = "INSERT INTO redrive.done_jobs (slot, id, queue, kind, priority, attempt, max_attempts, generation, \
         enqueued_at, started_at, done_at, keep_until) \
         SELECT redrive.done_slot(t.keep_until), t.id, 'orders', 'order', 0, 1, 5, 0, now(), now(), now(), t.keep_until \
         FROM (VALUES (1, now() + interval '30 days'), (2, now() + interval '1 hour'), (3, now() - interval '1 second'), \
                      (4, now() - interval '3 days'), (5, now() - interval '5 days')) t (id, keep_until)";
    client.sql(insert);
    let kept = kept(queue.database(), "");
    let ids: Vec<i64> = kept.iter().map(|job| job.id.get()).collect();
    assert_eq!(ids, [1, 2]);
    // One at a time.
    for due in [2, 1, 0] {
        assert_eq!(client.count("expired_done_slots()"), due);
        client.sql("SELECT redrive.compact()");
    }
    let left = "SELECT sum(id)::bigint FROM redrive.done_jobs";
    assert_eq!(scalar(&mut client, left), 1 + 2 + 3);
}

#[test]
fn a_slot_is_not_used_again_before_its_rows_have_expired() {
    let (test, _db) = TestDatabase::opened();
    // At any time, the slots of new rows and those that are truncated differ.
    let both = "SELECT count(*) FROM generate_series(0, 400) AS hours (passed) \
         CROSS JOIN LATERAL (SELECT now() + hours.passed * interval '1 hour' AS now) t \
         WHERE EXISTS (SELECT redrive.done_slot(t.now + kept * interval '1 hour') FROM generate_series(0, 720) kept \
                       INTERSECT SELECT redrive.done_slot(t.now - ago * interval '2 days') FROM generate_series(1, 3) ago)";
    assert_eq!(scalar(&mut test.client(), both), 0);
}
