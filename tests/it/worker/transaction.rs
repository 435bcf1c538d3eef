//! Handlers with a transaction: their effects and the end of the job commit together.

use redrive_tests::prelude::*;

/// A migrated database with the table for the effects of the handlers.
pub(super) fn with_effects() -> (TestDatabase, Queue) {
    let (test, queue) = TestDatabase::with_orders();
    test.sql("CREATE TABLE public.effects (number bigint NOT NULL)");
    (test, queue)
}

fn effect(job: &Job<Order>, tx: &mut Transaction<'_>) -> Result<(), Failure> {
    let insert = "INSERT INTO public.effects VALUES ($1)";
    tx.execute(insert, &[&job.payload().number])?;
    Ok(())
}

/// Starts a worker whose handlers wait at the gate with an effect in their transactions.
pub(super) fn at_the_gate(queue: &Queue, gate: &Gate) -> Worker {
    let gate = gate.clone();
    let handler = move |job: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        effect(job, tx)?;
        gate.pass();
        Ok(())
    };
    worker(queue).handle(handler).started()
}

/// Returns the number of effects, and of different jobs.
pub(super) fn tally(test: &TestDatabase) -> (i64, i64) {
    let asked = "SELECT count(*), count(DISTINCT number) FROM public.effects";
    test.client().row(asked, &[])
}

#[test]
fn a_failure_and_a_panic_roll_back_effects_and_follow_ups_and_keep_the_checkpoint() {
    let (test, queue) = with_effects();
    let handler = |job: &Job<Order>, tx: &mut Transaction<'_>| {
        effect(job, tx)?;
        job.then_in_queue("next", NewJob::raw("next", "{}")?)?;
        let has_failed = job.attempt() > 1 || job.generation() > 0;
        let last: Option<i64> = job.last_checkpoint()?;
        assert_eq!(last, has_failed.then_some(7));
        job.checkpoint(&7)?;
        match (job.payload().number, has_failed) {
            (1, false) => Err(Failure::retry("not yet")),
            (2, false) => panic!("not yet"),
            (3, false) => Err(Failure::reject("never")),
            _ => Ok(()),
        }
    };
    let worker = worker(&queue).handle(handler).started();
    let ids = queue.enqueue_many(&Order::up_to(4)).unwrap();
    counted(&worker, "every job to end", |counts| {
        (counts.retried, counts.dead, counts.done) == (2, 1, 3)
    });
    let follow_ups = || stats(queue.database(), "next").map(|stats| stats.ready);
    assert_eq!((tally(&test), follow_ups()), ((3, 3), Some(3)));
    let letter = queue.letter(ids[2]);
    assert_eq!((letter.attempts, &*letter.error_message), (1, "never"));

    // A redriven job recovers its letter in the same transaction.
    queue.redrives(&only(ids[2]));
    finish(&queue, worker);
    assert_eq!((tally(&test), follow_ups()), ((4, 4), Some(4)));
    assert_eq!(queue.letter(ids[2]).state, LetterState::Recovered);
}

/// The transaction holds no lock on its lease, so it delays no reaper.
#[test]
fn a_handler_whose_lease_is_reaped_rolls_back_and_its_job_runs_again() {
    let (test, queue) = with_effects();
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.lost), (1, 1));
    assert_eq!(tally(&test), (1, 1));
}

/// Makes transactions keep their first snapshot, as an application may want.
const ISOLATED: &str = "default_transaction_isolation = 'repeatable read'";

#[test]
fn a_checkpoint_spoils_no_transaction_that_keeps_its_snapshot() {
    let test = TestDatabase::migrated();
    test.sets(ISOLATED);
    let (queue, gate) = (test.queue("orders"), kept::<Gate>());
    let handler = move |job: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        tx.query_one("SELECT 1", &[])?;
        job.checkpoint(&7)?;
        gate.pass();
        Ok(())
    };
    let worker = lively(&queue).handle(handler).started();
    queue.enqueue_job(new_order(1).max_attempts(1)).unwrap();
    gate.wait_for(1);
    // For a lease.
    super::renewed_for(&mut test.client(), 2000);
    gate.open();
    done(&worker, 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.dead, counts.released), (0, 0));
}

#[test]
fn a_conflict_over_the_lease_of_a_job_is_not_charged() {
    let test = TestDatabase::migrated();
    test.sets(ISOLATED);
    let (queue, url) = (test.queue("orders"), test.url().to_owned());
    let has_run = AtomicBool::new(false);
    let handler = move |_: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        tx.query_one("SELECT 1", &[])?;
        if !has_run.swap(true, Ordering::SeqCst) {
            let mut other = Client::connect(&url, NoTls)?;
            other.execute("UPDATE redrive.leases SET done = done", &[])?;
        }
        Ok(())
    };
    let worker = worker(&queue).handle(handler).started();
    queue.enqueue_job(new_order(1).max_attempts(1)).unwrap();
    done(&worker, 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.dead, counts.released), (0, 1));
}
