//! Checkpoints: a later attempt resumes from what an earlier one saved.

use redrive_tests::prelude::*;

/// A worker with the shortest lease, whose jobs save a checkpoint and wait at the gate. The first
/// attempt fails, and the next one succeeds. They tell what they found.
fn saving(queue: &Queue, gate: &'static Gate, found: &mpsc::Sender<Option<i64>>) -> Worker {
    let found = found.clone();
    lively(queue).runs(move |job: &Job<Order>| {
        let last: Option<i64> = job.last_checkpoint()?;
        found.send(last).unwrap();
        job.checkpoint(&job.payload().number)?;
        job.progress(0.4, "rows");
        gate.pass();
        match last {
            Some(_) => Ok(()),
            None => Err(Failure::retry("not yet")),
        }
    })
}

/// Returns a header of a live job.
fn header(queue: &Queue, id: JobId, name: &str) -> Option<String> {
    let job = queue.database().admin().job(id).unwrap()?;
    job.headers.get(name).cloned()
}

fn checkpoint(queue: &Queue, id: JobId) -> Option<String> {
    header(queue, id, "redrive-checkpoint")
}

#[test]
fn a_renewal_stores_the_checkpoint_and_a_crash_keeps_it() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate_a, gate_b) = (kept::<Gate>(), kept::<Gate>());
    let (finds, found) = mpsc::channel();
    let a = saving(&test.queue("orders"), gate_a, &finds);
    let id = put(&queue, new_order(7).header("trace", "4f2a"));
    gate_a.wait_for(1);
    wait_until("a renewal to store the checkpoint", SOON, || {
        checkpoint(&queue, id).as_deref() == Some("7")
    });
    let shown = test.run(format!("job show {id}"));
    shown.shows("progress    40 % rows").shows("checkpoint  7");

    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    let b = saving(&test.queue("orders"), gate_b, &finds);
    gate_b.wait_for(1);
    assert_eq!(header(&queue, id, "trace").as_deref(), Some("4f2a"));
    gate_a.open();
    gate_b.open();
    finish(&queue, a);
    stop(b);
    assert_eq!(found.try_iter().collect::<Vec<_>>(), [None, Some(7)]);
}

#[test]
fn a_failed_attempt_stores_its_checkpoint_before_any_renewal() {
    let (_test, queue) = TestDatabase::with_orders();
    let (finds, found) = mpsc::channel();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        let last: Option<i64> = job.last_checkpoint()?;
        finds.send(last).unwrap();
        job.checkpoint(&(last.unwrap_or(0) + 1))?;
        match last {
            None => Err(Failure::retry("first")),
            Some(1) => Err(Failure::snooze(Duration::ZERO)),
            Some(2) => panic!("third"),
            Some(3) => Err(Failure::reject("broken")),
            Some(_) => Ok(()),
        }
    });
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    let headers = queue.letter(id).headers.expect("headers");
    assert_eq!(headers.get(), r#"{"redrive-checkpoint": "4"}"#);

    // A redriven job resumes.
    queue.redrives(&only(id));
    assert_eq!(finish(&queue, worker).stats.done, 1);
    let expected = [None, Some(1), Some(2), Some(3), Some(4)];
    assert!(found.try_iter().eq(expected));
}

#[test]
fn a_worker_that_lost_its_lease_stores_no_checkpoint_and_no_follow_up() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate_a, gate_b) = (Gate::new(), Gate::new());
    let start = |gate: &Gate| {
        // The lease is long, so that no renewal stores the checkpoint.
        let handler = |job: &Job<Order>| {
            job.checkpoint(&1)?;
            job.then_in_queue("next", new_order(3))?;
            match job.payload().number {
                1 => Err(Failure::retry("late")),
                _ => Ok(()),
            }
        };
        let worker = worker(&test.queue("orders")).slots(2);
        worker.runs(gate.passing_to(handler))
    };
    let a = start(&gate_a);
    let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
    gate_a.wait_for(2);
    let mut client = test.client();
    assert_eq!(expire_leases(&mut client).len(), 2);
    let b = start(&gate_b);
    gate_b.wait_for(2);
    gate_a.open();
    lost(&a, 2);
    stop(a);
    assert_eq!(checkpoint(&queue, ids[0]), None);
    assert_eq!(client.count("jobs"), 0, "no follow-up");
    gate_b.open();
    assert_eq!(finish(&queue, b).stats.done, 1);
    assert_eq!(client.count("jobs"), 1, "the follow-up of one job");
}

#[test]
fn a_locked_lease_delays_its_checkpoints_and_no_renewal() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = kept::<Gate>();
    // A statement may take longer than this lease.
    let builder = worker(&queue).lease(Duration::from_secs(6));
    let worker = builder.runs(move |job: &Job<Order>| {
        job.checkpoint(&7)?;
        gate.pass();
        assert!(!job.is_cancelled(), "its lease was safe");
        Ok(())
    });
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let locker = test.begins("SELECT FROM redrive.leases FOR UPDATE");
    // For more than a lease.
    super::renewed_for(&mut test.client(), 7000);
    assert_eq!(checkpoint(&queue, id), None);
    drop(locker);
    wait_until("the checkpoint", SOON, || checkpoint(&queue, id).is_some());
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.retried), (1, 0));
}
