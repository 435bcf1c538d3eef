//! The role of workers.

use redrive_tests::prelude::*;

use super::{Cast, Profession, letter};

/// A worker with that role runs jobs of every outcome and all chores without an error in its
/// log.
#[test]
fn a_worker_needs_only_the_worker_role() {
    let logged = Logged::start(LevelFilter::Warn);
    let mut cast = Cast::new();
    let role = cast.name(Profession::Worker);
    cast.owner.sql(&format!(
        "CREATE TABLE public.effects (number bigint); GRANT INSERT ON public.effects TO {role}"
    ));
    let db = cast.test.open();
    let queue = Queue::new(&db, "orders").unwrap();

    // A redriven job, a waiting policy, a rule of retention, a run without a driver.
    letter(&db);
    db.redrives(&of_orders());
    letter(&db);
    let fast = RunOptions::new().unthrottled();
    let run = db.dlq().runs().create(&of_orders(), &fast, &maria());
    let run = run.unwrap().expect("a letter").id;
    let foreign = ForeignFailure::new("test", "policy", "nightly", "order", r#"{"number": 1}"#);
    db.captures(&foreign);
    let policy = Policy::new(LetterFilter::new().queue("nightly"));
    let nightly = Schedule::every("nightly", Duration::from_secs(1)).unwrap();
    let nightly = nightly.redrive(policy);
    db.schedules().set(&nightly, &maria()).unwrap();
    let old = ForeignFailure::new("test", "old", "old", "order", r#"{"number": 1}"#);
    let old = db.captures(&old);
    db.discards(&LetterFilter::new().queue("old"));
    let rule = RetentionRule::archive(LetterState::Discarded, DAY);
    db.retains(&rule);
    let update = "UPDATE redrive.dead_letters SET died_at = died_at - interval '2 days', \
                  changed_at = changed_at - interval '2 days'";
    cast.owner.sql(update);
    // A lease of a lost worker.
    let lost = Queue::new(&db, "lost").unwrap();
    lost.enqueue(&Order { number: 1 }).unwrap();
    cast.owner.sql("WITH gone AS (DELETE FROM redrive.jobs WHERE queue = 'lost' RETURNING *) \
             INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, ids, kinds, payloads, enqueued_at) \
             SELECT gen_random_uuid(), gen_random_uuid(), queue, now() - interval '1 hour', \
                    ARRAY[id], ARRAY[kind::text], ARRAY[payload], ARRAY[enqueued_at] \
             FROM gone");

    // Done, retried, snoozed, in an outage, dead, panicking, with a key, in a transaction.
    queue.enqueue_many(&Order::up_to(8)).unwrap();
    put(&queue, new_order(9).unique("nine"));
    queue.enqueue(&Finish {}).unwrap();
    let tally = Tally::new();
    let ours = Queue::new(&cast.open(Profession::Worker), "orders").unwrap();
    let builder = lively(&ours).breaker_threshold(1);
    let builder = builder.handle(move |job: &Job<Order>| {
        match (job.payload().number, tally.count(job.id())) {
            (2, 1) => Err(Failure::retry("again")),
            (3, 1) => Err(Failure::snooze(Duration::ZERO)),
            (4, 1) => Err(Failure::outage("down")),
            (5, _) => Err(Failure::reject("never")),
            (6, 1) => panic!("ouch"),
            _ => Ok(()),
        }
    });
    let builder = builder.handle(|_: &Job<Finish>, tx: &mut Transaction<'_>| {
        tx.execute("INSERT INTO public.effects VALUES (1)", &[])?;
        Ok(())
    });
    let worker = builder.started();
    drained(&queue);
    wait_until("the job of a lost worker to be back", SOON, || {
        stats(&db, "lost").is_some_and(|stats| stats.ready == 1)
    });
    wait_until("the policy to send its letter", SOON, || {
        letters_in(&db, "nightly", LetterState::Open) == 0
    });
    wait_until("the old letter to be archived", SOON, || {
        db.dlq().get(old).unwrap().is_none()
    });
    wait_until("the run to be driven", SOON, || {
        none_refused(&logged);
        db.dlq().runs().get(run).unwrap().expect("the run").state == RunState::Finished
    });
    let stopped = stop(worker);
    assert_eq!(stopped.stats.dead, 1);
    assert!(stopped.stats.done >= 10, "{:?}", stopped.stats);
    none_refused(&logged);
}

#[test]
fn a_worker_stores_follow_ups_if_it_is_an_enqueuer_too() {
    let mut cast = Cast::new();
    let db = cast.test.open();
    let queue = Queue::new(&db, "orders").unwrap();
    let ours = Queue::new(&cast.open(Profession::Worker), "orders").unwrap();
    let worker = worker(&ours)
        .handle(|job: &Job<Order>| Ok(job.then(NewJob::new(&Finish {})?.unique("finish"))?))
        .runs(|_: &Job<Finish>| Ok(()));
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    let letter = db.letter(id);
    let detail = letter.error_detail.unwrap_or_default();
    has(&detail, "permission denied");

    let role = cast.name(Profession::Worker);
    let grant = "SELECT redrive.grant_role($1, 'enqueuer')";
    cast.owner.change(grant, &[&role]);
    db.redrives(&of_orders());
    assert_eq!(finish(&queue, worker).stats.done, 2);
}

/// Fails if the worker lacked a permission.
#[track_caller]
fn none_refused(logged: &Logged) {
    let mut refused = logged.lines();
    refused.retain(|line| line.contains("permission denied") || line.starts_with("ERROR"));
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}
