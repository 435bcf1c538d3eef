//! Handlers with a transaction: their effects and the end of the job commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::dlq::{LetterFilter, LetterState};
use redrive::postgres::Transaction;
use redrive::{Failure, Job, NewJob, Queue};
use redrive_tests::{
    Begin, Dead, Gate, Hold, Lost, Order, SOON, Sql, TestDatabase, counted, drained, expire_leases,
    finish, letters_in, new_order, scalar, stats, stop, wait_until, worker,
};

/// Creates the table for the effects of the handlers.
fn effects(test: &TestDatabase) {
    test.client()
        .sql("CREATE TABLE public.effects (number bigint NOT NULL)");
}

fn effect(job: &Job<Order>, tx: &mut Transaction<'_>) -> Result<(), Failure> {
    tx.execute(
        "INSERT INTO public.effects VALUES ($1)",
        &[&job.payload().number],
    )?;
    Ok(())
}

/// Returns the number of effects, and of different jobs.
fn tally(test: &TestDatabase) -> (i64, i64) {
    let asked = "SELECT count(*), count(DISTINCT number) FROM public.effects";
    let row = test.client().query_one(asked, &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn effects_and_the_end_of_the_job_commit_together() {
    let test = TestDatabase::migrated();
    effects(&test);
    let queue = test.queue("orders");
    let worker = worker(&queue).slots(3).handle(effect).started();
    queue.enqueue_many(&Order::up_to(50)).unwrap();
    drained(&queue);
    counted(&worker, "50 done", |counts| counts.done == 50);
    assert_eq!(stop(worker).stats.lost, 0);
    assert_eq!(tally(&test), (50, 50));
}

#[test]
fn a_failure_and_a_panic_roll_the_effects_back() {
    let test = TestDatabase::migrated();
    effects(&test);
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>, tx: &mut Transaction<'_>| {
            effect(job, tx)?;
            match (job.payload().number, job.attempt()) {
                (1, 1) => Err(Failure::retry("not yet")),
                (2, 1) => panic!("not yet"),
                (3, _) => Err(Failure::reject("never")),
                _ => Ok(()),
            }
        })
        .started();
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    drained(&queue);
    let counts = stop(worker).stats;
    assert_eq!((counts.retried, counts.dead, counts.done), (2, 1, 3));
    assert_eq!(tally(&test), (3, 3));
    let letters = queue.listed(&LetterFilter::new().queue("orders"));
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].attempts, &*letters[0].error_message),
        (1, "never")
    );
}

/// Runs quick jobs until the worker claims in batches.
pub(super) fn warm_up(queue: &Queue, worker: &redrive::Worker) {
    let warm: Vec<NewJob> = (0..150)
        .map(|_| NewJob::raw("warm", "{}").unwrap())
        .collect();
    queue.enqueue_jobs(&warm).unwrap();
    counted(worker, "the warm-up to be done", |counts| {
        counts.done == 150
    });
}

#[test]
fn a_worker_that_lost_its_lease_rolls_the_effects_back() {
    let test = TestDatabase::migrated();
    effects(&test);
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle(gate.handler())
        .hold_for(Duration::from_hours(1))
        .handle(effect)
        .handle_any(|_| Ok(()))
        .started();
    warm_up(&queue, &worker);

    // The only slot is busy; the transactional jobs behind it are claimed.
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.extend(
        Order::up_to(5)
            .iter()
            .map(|order| NewJob::new(order).unwrap()),
    );
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    wait_until("all to be leased", SOON, || {
        stats(queue.database(), "orders").is_some_and(|s| s.leased == 6)
    });
    let lost = expire_leases(&mut test.client());
    assert_eq!(lost.len(), 6);
    assert!(lost.iter().all(|lost| matches!(lost, Lost::Back(_))));
    gate.open();
    counted(&worker, "six results to be refused", |counts| {
        counts.lost == 6
    });
    drained(&queue);
    counted(&worker, "each job to be done once", |counts| {
        counts.done == 150 + 6
    });
    stop(worker);
    assert_eq!(tally(&test), (5, 5));
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 0);
}

/// The transaction holds no lock on its lease, so it delays no reaper.
#[test]
fn a_handler_whose_lease_is_reaped_rolls_back_and_its_job_runs_again() {
    let test = TestDatabase::migrated();
    effects(&test);
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>, tx: &mut Transaction<'_>| {
                effect(job, tx)?;
                gate.pass();
                Ok(())
            }
        })
        .started();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    gate.open();
    drained(&queue);
    let counts = stop(worker).stats;
    assert_eq!((counts.done, counts.lost), (1, 1));
    assert_eq!(tally(&test), (1, 1));
}

#[test]
fn a_redriven_job_recovers_its_letter_in_the_same_transaction() {
    let test = TestDatabase::migrated();
    effects(&test);
    let queue = test.queue("orders");
    let fixed = Arc::new(AtomicBool::new(false));
    let worker = worker(&queue)
        .handle({
            let fixed = Arc::clone(&fixed);
            move |job: &Job<Order>, tx: &mut Transaction<'_>| {
                effect(job, tx)?;
                if fixed.load(Ordering::SeqCst) {
                    Ok(())
                } else {
                    Err(Failure::reject("broken"))
                }
            }
        })
        .started();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    assert_eq!(tally(&test), (0, 0));
    fixed.store(true, Ordering::SeqCst);
    queue.redrives(&LetterFilter::new().ids([id]));
    finish(&queue, worker);
    assert_eq!(tally(&test), (1, 1));
    let letter = queue.letter(id);
    assert_eq!(letter.state, LetterState::Recovered);
}

/// Makes transactions keep their first snapshot, as an application may want.
fn keep_snapshots(test: &TestDatabase) {
    test.client().sql(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
         ''repeatable read''', current_database()); END $$",
    );
}

#[test]
fn a_checkpoint_spoils_no_transaction_that_keeps_its_snapshot() {
    let test = TestDatabase::migrated();
    keep_snapshots(&test);
    let (queue, gate) = (test.queue("orders"), Gate::new());
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>, tx: &mut Transaction<'_>| {
                tx.query_one("SELECT 1", &[])?;
                job.checkpoint(&7)?;
                gate.pass();
                Ok(())
            }
        })
        .started();
    let job = new_order(1).max_attempts(1);
    queue.enqueue_job(job).unwrap();
    gate.wait_for(1);
    let mut client = test.client();
    let expiry = "SELECT (extract(epoch FROM max(expires_at)) * 1000)::bigint FROM redrive.workers";
    let before = scalar(&mut client, expiry);
    wait_until("renewals for a lease", SOON, || {
        scalar(&mut client, expiry) > before + 2000
    });
    gate.open();
    counted(&worker, "the job to end", |counts| {
        (counts.done, counts.dead, counts.released) == (1, 0, 0)
    });
    stop(worker);
}

#[test]
fn a_conflict_over_the_lease_of_a_job_is_not_charged() {
    let test = TestDatabase::migrated();
    keep_snapshots(&test);
    let (queue, url) = (test.queue("orders"), test.url().to_owned());
    let has_run = AtomicBool::new(false);
    let worker = worker(&queue)
        .handle(move |_: &Job<Order>, tx: &mut Transaction<'_>| {
            tx.query_one("SELECT 1", &[])?;
            if !has_run.swap(true, Ordering::SeqCst) {
                let mut other = postgres::Client::connect(&url, postgres::NoTls)?;
                other.execute("UPDATE redrive.leases SET done = done", &[])?;
            }
            Ok(())
        })
        .started();
    let job = new_order(1).max_attempts(1);
    queue.enqueue_job(job).unwrap();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.dead, counts.released), (0, 1));
}
