//! Attempts: success, failure and death of jobs.

use redrive_tests::prelude::*;

use super::{Case, Fixture, claimed, died, done, failed, hand, once, reject, succeed};

/// The changes of an attempt that a retry with a delay follows, and of the next one, which succeeds.
const RETRIED: &str = "jobs_retried_total{q}=1 job_retry_delay_seconds{q}=1";

fn one_attempt(s: &mut Fixture) {
    put(&s.queue, new_order(1).max_attempts(1));
}

/// Works with a handler that settles its job in a transaction.
pub(super) fn work_in_transaction(s: &mut Fixture, failures: u32) {
    let worker = worker(&s.queue)
        .handle(
            move |job: &Job<Order>, _: &mut Transaction<'_>| match job.attempt() > failures {
                true => Ok(()),
                false => Err(Failure::retry("not yet")),
            },
        )
        .started();
    finish(&s.queue, worker);
}

pub(super) const ATTEMPTS: &[Case] = cases! {
    "jobs succeed" given |s| drop(s.enqueue(70)), |s| s.work(succeed) => done(70);
    "due jobs are promoted and priorities change" given |s| {
        let job = new_order(1).delay(HOUR);
        let ids = ids(&s.queue.enqueue_jobs(&vec![job; 3]).unwrap());
        let ready = s.enqueue(1);
        s.sql("UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 minute' WHERE queue = 'QUEUE'");
        for id in [ids[0], ready[0]] {
            let jobs = s.queue.database().admin().jobs();
            let this = JobFilter::new().ids([id]);
            jobs.change(&this, JobChange::SetPriority(7), &maria()).unwrap();
        }
    }, |s| {
        hand(&s.queue).promotes(&mut s.client);
        s.sql("SELECT redrive.turn_ring(0, 1000)");
    } => "";
    "a failed attempt is retried" given |s| drop(s.enqueue(1)),
        |s| s.work(once(|| Failure::retry("not yet"))) => claimed(1), failed("error"), RETRIED, done(1);
    "a job is snoozed" given |s| drop(s.enqueue(1)),
        |s| s.work(once(|| Failure::snooze(Duration::ZERO))) => claimed(1), "jobs_snoozed_total{q}=1", done(1);
    "a job meets an outage" given |s| drop(s.enqueue(1)), |s| s.work(once(|| Failure::outage("down")))
        => claimed(1), failed("outage"), "jobs_retried_total{q}=1", done(1);
    "a handler panics" given |s| drop(s.enqueue(1)), |s| {
        s.work(|job| match job.attempt() {
            1 => panic!("expected"),
            _ => Ok(()),
        });
    } => claimed(1), failed("panic"), RETRIED, done(1);
    "a rejected job dies" given |s| drop(s.enqueue(1)), |s| s.work(reject)
        => died("rejected", "rejected", "Broken");
    "an exhausted job dies" given one_attempt, |s| s.work(|_| Err(Failure::retry("again").class("Broken")))
        => died("error", "exhausted", "Broken");
    "an undecodable job dies" given |s| { put(&s.queue, NewJob::raw("order", "7").unwrap()); },
        |s| s.work(succeed) => died("undecodable", "undecodable", "redrive_tests::payload::Order");
    "a job exceeds its deadline and dies" given one_attempt, |s| {
        let gate = Gate::new();
        let options = HandlerOptions::new().deadline(Duration::from_millis(1));
        let worker = worker(&s.queue).handle(gate.passing::<Order>()).options(options).started();
        drained(&s.queue);
        gate.open();
        stop(worker);
    } => died("timeout", "timeout", "Timeout");
    "a handler settles its job in a transaction" given |s| drop(s.enqueue(3)),
        |s| work_in_transaction(s, 0) => done(3);
    "the transaction of a handler rolls back" given |s| drop(s.enqueue(1)),
        |s| work_in_transaction(s, 1) => claimed(1), failed("error"), RETRIED, done(1);
};
