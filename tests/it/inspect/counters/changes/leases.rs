//! Leases: release, expiry and cancellation.

use redrive::limits::MAX_CRASHES;
use redrive_tests::prelude::*;

use super::{Case, Fixture, buried, claim, enqueued, failed, hand, release};

/// Claims four jobs.
fn four(s: &mut Fixture) {
    s.enqueue(4);
    claim(s);
}

pub(super) const LEASES: &[Case] = cases! {
    "jobs are released" given four, release => "jobs_released_total{q}=4";
    "a leased job is cancelled and released" given |s| {
        let ids = s.enqueue(1);
        claim(s);
        s.queue.cancels(ids[0]);
    }, release => buried(1, "manual", "cancelled");
    "a lease expires" given four, |s| drop(reap(&mut s.client)) =>
        "leases_lost_total{q}=1 jobs_released_total{q}=4 job_attempts_failed_total{q,order,worker_lost}=4";
    "a job has lost too many workers" given |s| {
        s.enqueue(1);
        for _ in 1..MAX_CRASHES {
            claim(s);
            reap(&mut s.client);
            hand(&s.queue).promotes(&mut s.client);
        }
        claim(s);
    }, |s| drop(reap(&mut s.client)) => buried(1, "worker_lost", "worker_lost"),
        "leases_lost_total{q}=1 job_attempts_failed_total{q,order,worker_lost}=1";
    "results of a lost lease are rejected", |s| {
        // An unknown lease with three completed jobs, and one that was retried.
        let lease = Uuid::new_v4();
        assert!(!hand(&s.queue).ends(&mut s.client, lease, 3));
        s.settle(lease, &[("retry", Some("error"))], &[("failed", Some("order"), Some("error"), None, 1)]);
    } => "results_refused_total{q}=4";
    "a ready and a delayed job are cancelled" given |s| drop(s.enqueue(1)), |s| {
        let ready = s.queue.enqueue(&Order { number: 1 }).unwrap();
        let delayed = put(&s.queue, new_order(1).delay(Duration::from_mins(1)));
        for id in [ready, delayed] {
            s.queue.cancels(id);
        }
    } => enqueued(2), buried(2, "manual", "cancelled");
    "jobs are cancelled without a notice to their worker" given |s| {
        s.enqueue(2);
        claim(s);
    }, |s| {
        let lease = s.lease();
        s.sql("UPDATE redrive.leases l SET cancelled = l.ids WHERE l.queue = 'QUEUE'");
        let cells = [
            ("failed", Some("order"), Some("error"), None, 1),
            ("wait", None, None, Some(0), 2),
            ("run", Some("failed"), None, Some(0), 1),
        ];
        s.settle(lease, &[("retry", Some("error")), ("snooze", None)], &cells);
    } => "job_queue_wait_seconds{q}=2", failed("error"), buried(2, "manual", "Broken");
};
