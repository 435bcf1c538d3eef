//! Failures in a batch: which jobs are charged, and how they run again.

use redrive_tests::prelude::*;

use super::{Batches, LONG, ended, full_batches};

/// Orders with these numbers and one attempt each.
fn once(numbers: std::ops::RangeInclusive<i64>) -> Vec<NewJob> {
    let jobs = numbers.map(|number| new_order(number).max_attempts(1));
    jobs.collect()
}

#[test]
fn each_job_of_a_batch_has_its_own_verdict() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = ids(&queue.enqueue_jobs(&once(1..=6)).unwrap());
    let worker = full_batches(&queue, 6, |batch| {
        let [_, done, failed, rejected, snoozed, last] = batch.jobs() else {
            // The snoozed job, again.
            return Ok(());
        };
        done.done();
        failed.fail("x".parse::<i64>().unwrap_err());
        rejected.fail(Failure::reject("a duplicate"));
        snoozed.fail(Failure::snooze(Duration::ZERO));
        last.done();
        last.fail(Failure::reject("the last decision"));
        Ok(())
    });
    ended(&worker, 2, 3);
    for (id, cause, message) in [
        (ids[2], DeathCause::Exhausted, "invalid digit"),
        (ids[3], DeathCause::Rejected, "a duplicate"),
        (ids[5], DeathCause::Rejected, "the last decision"),
    ] {
        let letter = queue.letter(id);
        assert_eq!(letter.cause, cause, "{message}");
        has(&letter.error_message, message);
    }
    assert_eq!(stop(worker).stats.snoozed, 1);
    // A snoozed job is not charged, so it waits for a batch again; the stop has released it.
    let left = stats(queue.database(), "orders").expect("a job");
    assert_eq!((left.ready, left.leased, left.delayed), (1, 0, 0));
}

#[test]
fn an_error_or_a_panic_charges_only_the_jobs_without_a_decision() {
    for panics in [false, true] {
        let (_test, queue) = TestDatabase::with_orders();
        let ids = ids(&queue.enqueue_jobs(&once(1..=4)).unwrap());
        let worker = full_batches(&queue, 4, move |batch| {
            for job in batch.jobs() {
                assert!(!panics || job.payload().number != 3, "in the middle");
                if job.payload().number == 3 {
                    return Err(Failure::retry("in the middle"));
                }
                job.done();
            }
            Ok(())
        });
        ended(&worker, 2, 2);
        finish(&queue, worker);
        for id in &ids[2..] {
            let letter = queue.letter(*id);
            assert!(letter.error_message.contains("in the middle"));
            assert_eq!(letter.error_class == "panic", panics, "{letter:?}");
        }
    }
}

#[test]
fn a_payload_that_cannot_be_decoded_dies_alone() {
    let (_test, queue) = TestDatabase::with_orders();
    let mut jobs = once(1..=3);
    jobs.insert(1, NewJob::raw(<Order as Payload>::KIND, r#""x""#).unwrap());
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    let batches = kept::<Batches>();
    let worker = full_batches(&queue, 4, batches.handler());
    ended(&worker, 3, 1);
    stop(worker);
    assert_eq!(batches.all(), [[1, 2, 3]]);
    assert_eq!(queue.letter(ids[1]).cause, DeathCause::Undecodable);
}

#[test]
fn a_bad_job_among_a_thousand_is_isolated_by_the_next_attempt() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = queue.enqueue_many(&Order::up_to(1000)).unwrap();
    let (batches, tally) = (kept::<Batches>(), kept::<Tally>());
    let worker = full_batches(&queue, 1000, move |batch| {
        batches.note(batch);
        for job in batch.jobs() {
            tally.count(job.id());
        }
        match batch.jobs().iter().any(|job| job.payload().number == 500) {
            true => Err(Failure::retry("one of them is bad")),
            false => Ok(()),
        }
    });
    ended(&worker, 999, 1);
    finish(&queue, worker);
    assert_eq!(in_state(&queue, LetterState::Open), 1);
    let sizes = batches.sizes();
    assert_eq!(sizes.first(), Some(&1000));
    assert!(sizes[1..].iter().all(|size| *size == 1), "{sizes:?}");
    let bad = ids[499];
    assert_eq!(tally.of(bad), 5, "each of its attempts is charged once");
    let innocent = ids.iter().filter(|id| **id != bad);
    assert!(innocent.clone().all(|id| tally.of(*id) == 2));
}

#[test]
fn a_deadline_of_a_batch_charges_only_the_jobs_without_a_decision() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = kept::<Gate>();
    let handler = move |batch: &Batch<Order>| -> Result<(), Failure> {
        let [first, second, _] = batch.jobs() else {
            return Ok(());
        };
        first.then_in_queue("next", new_order(9))?;
        first.done();
        second.fail(Failure::reject("before the deadline"));
        gate.pass();
        Ok(())
    };
    let soon = HandlerOptions::new().deadline(Duration::from_millis(10));
    let worker = worker(&queue).handle_batch(BatchOptions::new(3).linger(LONG), handler);
    let worker = worker.options(soon).started();
    let ids = ids(&queue.enqueue_jobs(&once(1..=3)).unwrap());
    gate.wait_for(1);
    ended(&worker, 1, 2);
    let causes = [1, 2].map(|at| queue.letter(ids[at]).cause);
    assert_eq!(causes, [DeathCause::Rejected, DeathCause::Timeout]);
    let next = stats(queue.database(), "next").expect("the follow-up");
    assert_eq!(next.ready, 1);
    gate.open();
    assert_eq!(stop(worker).stats.done, 1, "its late end is rejected");
}

#[test]
fn an_outage_of_one_job_charges_nothing_and_its_probe_runs_alone() {
    let (_test, queue) = TestDatabase::with_orders();
    let batches = kept::<Batches>();
    let handler = move |batch: &Batch<Order>| {
        batches.note(batch);
        if let [_, second, _] = batch.jobs() {
            second.fail(Failure::outage("the carrier is down"));
        }
        assert!(batch.jobs().iter().all(|job| job.attempt() == 1));
        Ok::<(), Failure>(())
    };
    let options = BatchOptions::new(3).linger(LONG);
    let builder = worker(&queue).breaker_threshold(1);
    let worker = builder.handle_batch(options, handler).started();
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    // The outage opens the breaker. Its probe waits for no other job.
    done(&worker, 3);
    assert_eq!(finish(&queue, worker).stats.retried, 0);
    assert_eq!(batches.all(), [vec![1, 2, 3], vec![2]]);
}
