//! Leases: a worker can change a job only while it holds the lease.

mod lost;
mod renewal;

use redrive_tests::prelude::*;

/// The result of a handler after its gate.
type Verdict = fn(&Job<Order>) -> Result<(), Failure>;

/// A worker on a separate handle, whose handler counts, waits at a gate, and returns.
fn gated(test: &TestDatabase, tally: &Tally, gate: &Gate, verdict: Verdict) -> Worker {
    let (tally, gate) = (tally.clone(), gate.clone());
    worker(&test.queue("orders")).runs(move |job: &Job<Order>| {
        tally.count(job.id());
        gate.pass();
        verdict(job)
    })
}

#[expect(clippy::unnecessary_wraps, reason = "it is one verdict among others")]
fn succeed(_: &Job<Order>) -> Result<(), Failure> {
    Ok(())
}

fn retry(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::retry("a stale result"))
}

/// The result of a stale worker has no effect: the worker that holds the job now completes it.
fn stale(verdict: Verdict) {
    let (test, queue) = TestDatabase::with_orders();
    let (runs_a, runs_b) = (Tally::new(), Tally::new());
    let (gate_a, gate_b) = (Gate::new(), Gate::new());
    let a = gated(&test, &runs_a, &gate_a, verdict);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let is = |state, crashes, attempts| {
        let job = live_job(&queue, id);
        let found = (job.state, job.crashes, job.attempts);
        assert_eq!(found, (state, crashes, attempts));
        job
    };
    gate_a.wait_for(1);
    let job = is(JobState::Leased, 0, 1);
    assert!(job.worker.is_some() && job.host.is_some());
    // The reaper refunds what the claim charged.
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    let job = is(JobState::Ready, 1, 0);
    assert_eq!(job.history[0].outcome, "worker_lost");

    // While B holds the job …
    let b = gated(&test, &runs_b, &gate_b, succeed);
    gate_b.wait_for(1);
    gate_a.open();
    lost(&a, 1);
    is(JobState::Leased, 1, 1);
    // … and only B ends it.
    gate_b.open();
    done(&b, 1);
    assert!(queue.is_drained().unwrap());

    let counts = stop(a).stats;
    assert_eq!((counts.done, counts.retried, counts.dead), (0, 0, 0));
    assert_eq!((counts.snoozed, counts.lost), (0, 1));
    assert_eq!(stop(b).stats.lost, 0);
    assert_eq!((runs_a.of(id), runs_b.of(id)), (1, 1));
    assert!(queue.database().dlq().get(id).unwrap().is_none());
    assert!(queue.is_drained().unwrap(), "it was not opened again");
}
