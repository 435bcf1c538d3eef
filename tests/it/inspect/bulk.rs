//! Bulk operations on waiting jobs: cancel, set the priority, run now, edit.

use redrive::Error;
use redrive_tests::prelude::*;

use super::listing::ids;

/// Enqueues `count` ready jobs and as many delayed ones, of queue `orders`.
fn waiting(queue: &Queue, count: i64) -> (Vec<JobId>, Vec<JobId>) {
    let ready = queue.enqueue_many(&Order::up_to(count)).unwrap();
    let delayed = (1..=count).map(|number| new_order(number).delay(HOUR));
    let delayed = queue.enqueue_jobs(&delayed.collect::<Vec<_>>()).unwrap();
    (ready, redrive_tests::ids(&delayed))
}

/// An audit record: verb, person, reason, filter, number of jobs, and whether it is a further batch.
type Record = (String, String, String, String, i64, bool);

fn record(verb: &str, filter: &str, jobs: i64, is_further: bool) -> Record {
    let [verb, person, reason, filter] = [verb, "maria@ops-1", "INC-7", filter].map(str::to_owned);
    (verb, person, reason, filter, jobs, is_further)
}

fn audit(test: &TestDatabase) -> Vec<Record> {
    let records = "SELECT verb, person, reason, filter::text, letters, \
                   batch_of IS NOT NULL FROM redrive.audit ORDER BY id";
    test.client().rows(records, &[])
}

#[test]
fn a_bulk_cancellation_buries_waiting_jobs_and_its_letters_are_found_by_the_audit() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    waiting(&queue, 400);
    test.queue("mails").enqueue(&Order { number: 1 }).unwrap();
    let unique = new_order(0).unique("today");
    put(&queue, unique.clone());

    let filter = JobFilter::new().queue("orders");
    let jobs = db.admin().jobs();
    let (count, affected) = jobs.preview(&filter, JobChange::Cancel).unwrap();
    assert_eq!((count.ready, count.delayed, affected), (401, 400, 801));
    let changed = jobs.change(&filter, JobChange::Cancel, &maria()).unwrap();
    assert_eq!(changed.ids.len(), 801);
    assert!(queue.is_drained().unwrap());
    assert_eq!(ids(db, "").len(), 1, "the job of the other queue");

    let letters = LetterFilter::new().audit(changed.audit.expect("an audit record"));
    assert_eq!(db.dlq().count(&letters).unwrap(), 801);
    let letter = &db.listed(&letters)[0];
    assert_eq!(letter.cause, DeathCause::Manual);
    assert_eq!(letter.state, LetterState::Open);
    assert_eq!(&*letter.error_class, "cancelled");
    let act = |jobs, is_further| record("cancel_jobs", r#"{"queue": "orders"}"#, jobs, is_further);
    assert_eq!(audit(&test), [act(400, false), act(401, true)]);
    // The key is free again, and the counters agree with the rows.
    let again = queue.enqueue_job(unique).unwrap();
    assert!(matches!(again, Enqueued::New(_)));
    no_drift(db);
}

#[test]
fn a_bulk_priority_changes_the_order_of_the_claim_and_nothing_else() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (ready, delayed) = waiting(&queue, 700);
    let jobs = db.admin().jobs();
    let late: JobFilter = "queue=orders payload.number>100".parse().unwrap();
    let before = db.live(ready[500]);
    let changed = jobs.change(&late, JobChange::SetPriority(-7), &maria());
    assert_eq!(changed.unwrap().ids.len(), 1200);
    let after = db.live(ready[500]);
    assert_eq!((after.priority, after.state), (-7, JobState::Ready));
    let times = |job: &LiveJob| (job.since, job.enqueued_at);
    assert_eq!(times(&after), times(&before));
    assert_eq!(after.payload.get(), before.payload.get());
    assert_eq!(db.live(delayed[500]).priority, -7);
    assert_eq!(db.live(ready[50]).priority, 0);
    // Jobs that have the priority do not change again.
    let again = jobs.change(&late, JobChange::SetPriority(-7), &maria());
    assert_eq!(again.unwrap().audit, None);
    let bad = jobs.change(&late, JobChange::SetPriority(1001), &maria());
    assert!(bad.unwrap_err().is_invalid());

    let tally = Tally::new();
    let worker = worker(&queue).slots(1).runs(tally.counting());
    done(&worker, ready.len() as u64);
    stop(worker);
    assert_eq!(tally.order()[..100], ready[..100]);
    assert_eq!(ids(db, "state=ready").len(), 0);
}

#[test]
fn an_edit_changes_the_payloads_of_waiting_jobs() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (ready, delayed) = waiting(&queue, 150);
    let edit = Edit::transform(|payload| match payload {
        r#"{"number":7}"# => Err("no sevens".to_owned()),
        r#"{"number":8}"# => Ok(payload.to_owned()),
        _ => Ok(payload.replace("number", "count")),
    });
    let filter = JobFilter::new().queue("orders");
    let (mut changed, mut same, mut refused) = (0, 0, 0);
    let jobs = db.admin().jobs();
    let previewed = jobs.preview_edit(&filter, &edit, |preview| -> Result<(), Error> {
        match preview.after {
            Ok(Some(_)) => changed += 1,
            Err(_) => refused += 1,
            Ok(None) => same += 1,
        }
        Ok(())
    });
    previewed.unwrap();
    assert_eq!((changed, same, refused), (296, 2, 2));
    assert_eq!(audit(&test), []);

    let done = db.admin().jobs().edit(&filter, &edit, &maria()).unwrap();
    assert_eq!((done.edited.len(), done.unchanged), (296, 2));
    assert_eq!((done.refused[0].letters, done.skipped.len()), (2, 0));
    for (id, payload) in [
        (ready[0], r#"{"count":1}"#),
        (ready[6], r#"{"number":7}"#),
        (ready[149], r#"{"count":150}"#),
        (delayed[0], r#"{"count":1}"#),
    ] {
        assert_eq!(db.live(id).payload.get(), payload);
    }
    let records = audit(&test);
    assert_eq!(records.iter().map(|record| record.4).sum::<i64>(), 296);
    assert!(records.iter().all(|record| record.0 == "edit_jobs"));
    assert_eq!(records.iter().filter(|record| !record.5).count(), 1);
    no_drift(db);
}

#[test]
fn an_edit_does_not_overwrite_a_payload_that_changed_meanwhile() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let other = test.open();
    let edit = Edit::transform(move |payload| -> Result<String, String> {
        if payload == r#"{"number":1}"# {
            let set = Edit::set(r#"{"number":2}"#).unwrap();
            let this = JobFilter::new().ids([id]);
            other.admin().jobs().edit(&this, &set, &maria()).unwrap();
        }
        Ok(r#"{"number":3}"#.to_owned())
    });
    let done = db.admin().jobs().edit(&JobFilter::new(), &edit, &maria());
    assert_eq!(done.unwrap().skipped, [id]);
    let job = db.live(id);
    assert_eq!(job.payload.get(), r#"{"number":2}"#);
}

#[test]
fn leased_jobs_do_not_change() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (gate, worker, id) = running(&queue);
    let all = JobFilter::new();
    let jobs = db.admin().jobs();
    let priority = JobChange::SetPriority(3);
    for change in [JobChange::Cancel, priority, JobChange::RunNow] {
        let (count, affected) = jobs.preview(&all, change).unwrap();
        assert_eq!((count.leased, affected), (1, 0), "{change:?}");
        let changed = jobs.change(&all, change, &maria()).unwrap();
        assert!(changed.ids.is_empty(), "{change:?}");
    }
    let edit = Edit::set("{}").unwrap();
    let done = jobs.edit(&all, &edit, &maria()).unwrap();
    assert!(done.edited.is_empty() && done.skipped.is_empty());
    assert_eq!(ids(db, "state=leased"), [id.get()]);
    assert_eq!(audit(&test), []);

    // By id, the handler is asked to stop.
    assert_eq!(jobs.cancel(id, &maria()).unwrap(), Cancelled::Asked);
    gate.open();
    finish(&queue, worker);
    assert_eq!(jobs.cancel(id, &maria()).unwrap(), Cancelled::NotLive);
    let waiting = queue.enqueue(&Order { number: 1 }).unwrap();
    assert_eq!(jobs.cancel(waiting, &maria()).unwrap(), Cancelled::Dead);
    let act = |verb: &str, id: JobId| record(verb, &format!(r#"{{"ids": [{id}]}}"#), 1, false);
    let acts = [act("cancel_running_jobs", id), act("cancel_jobs", waiting)];
    assert_eq!(audit(&test), acts);
}
