//! Running jobs that an operator cancels: their handlers learn of it soon, and they do not run again.

use postgres::fallible_iterator::FallibleIterator;
use redrive_tests::prelude::*;

/// A renewal would tell the handlers, too.
const LEASE: Duration = Duration::from_mins(30);

/// Waits until the job is cancelled, and fails.
fn wait_for_cancel(job: &Job<Order>) -> Result<(), Failure> {
    wait_until("the job to be cancelled", SOON, || job.is_cancelled());
    Err(Failure::retry("cancelled"))
}

/// A worker whose handlers pass the first gate, wait for the cancellation of their job, and pass the second one.
fn waiting(queue: &Queue, [running, told]: &[Gate; 2], in_transaction: bool) -> Worker {
    let [running, told] = [running.clone(), told.clone()];
    let handler = running.passing_to(move |job: &Job<Order>| {
        let failed = wait_for_cancel(job);
        told.pass();
        failed
    });
    let builder = worker(queue).lease(LEASE);
    match in_transaction {
        true => builder.handle(move |job: &Job<Order>, _: &mut Transaction<'_>| handler(job)),
        false => builder.handle(handler),
    }
    .started()
}

#[test]
fn a_cancellation_reaches_its_handler_and_waits_for_no_lock() {
    for in_transaction in [true, false] {
        for locked in [true, false] {
            let (test, queue) = TestDatabase::with_orders();
            let gates = [Gate::new(), Gate::new()];
            gates.iter().for_each(Gate::open);
            let worker = waiting(&queue, &gates, in_transaction);
            let id = queue.enqueue(&Order { number: 1 }).unwrap();
            gates[0].wait_for(1);
            let mut client = test.client();
            let mut locker = client.transaction().unwrap();
            if locked {
                locker.sql("SELECT FROM redrive.leases FOR UPDATE");
            }
            let cancelled = thread::scope(|scope| {
                let cancelling = scope.spawn(|| queue.cancels(id));
                gates[1].wait_for(1);
                locker.commit().unwrap();
                cancelling.join().unwrap()
            });
            match locked {
                false => assert_eq!(cancelled, Cancelled::Asked),
                // The verdict waits for the lease as well, and may be stored before the mark.
                true => assert_ne!(cancelled, Cancelled::NotLive),
            }
            finish(&queue, worker);
            let letter = queue.letter(id);
            assert_eq!((letter.cause.as_str(), letter.attempts), ("manual", 1));
        }
    }
}

/// What the session does that holds the lease.
type End = fn(&mut Client);

#[test]
fn a_cancellation_follows_its_job_past_whoever_locks_the_lease() {
    // Whoever settles or reaps the lease reads the mark before it is there.
    let waits: End = |_| ();
    let settles: End = |holder| holder.sql("DELETE FROM redrive.leases");
    let reaps: End = |holder| {
        holder.sql("UPDATE redrive.workers SET expires_at = now() - interval '1 hour'");
        assert_eq!(reap(holder).len(), 1);
    };
    for (end, answer) in [
        (waits, Cancelled::Asked),
        (reaps, Cancelled::Dead),
        (settles, Cancelled::NotLive),
    ] {
        let (test, queue) = TestDatabase::with_orders();
        let gate = Gate::new();
        let id = queue.enqueue(&Hold {}).unwrap();
        let worker = worker(&queue).lease(LEASE).runs(gate.handler());
        gate.wait_for(1);
        let mut holder = test.begins("SELECT FROM redrive.leases FOR UPDATE");
        let cancel = || queue.cancels(id);
        let cancelled = held_up(&test, cancel, || {
            end(&mut holder);
            holder.sql("COMMIT");
        });
        assert_eq!(cancelled, answer);
        gate.open();
        stop(worker);
    }
}

/// At the first look, nobody ran the job.
#[test]
fn a_cancellation_tells_the_worker_that_takes_the_job_meanwhile() {
    let (test, queue) = TestDatabase::with_orders();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let mut listener = test.client();
    listener.sql("LISTEN redrive_cancel");
    let mut claim = test.begins(
        "WITH gone AS (DELETE FROM redrive.jobs RETURNING *) \
         INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
         SELECT gen_random_uuid(), gen_random_uuid(), queue, ARRAY[id], ARRAY[kind::text], ARRAY[payload], \
                ARRAY[enqueued_at] \
         FROM gone",
    );
    let cancelled = held_up(&test, || queue.cancels(id), || claim.sql("COMMIT"));
    assert_eq!(cancelled, Cancelled::Asked);
    let mut notifications = listener.notifications();
    let told = notifications.timeout_iter(SOON).next().unwrap();
    has(told.expect("a notification").payload(), id.to_string());
}

#[test]
fn a_job_that_is_cancelled_while_it_waits_for_its_slot_starts_cancelled() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).lease(LEASE).hold_for(HOUR);
    let worker = worker.handle(gate.handler()).handle(wait_for_cancel);
    let worker = worker.handle_any(|_| Ok(())).started();
    // After many quick jobs, the worker claims in batches.
    let quick = NewJob::raw("quick", "{}").unwrap();
    queue.enqueue_jobs(&vec![quick; 150]).unwrap();
    done(&worker, 150);
    let held = NewJob::new(&Hold {}).unwrap().priority(1);
    let ids = queue.enqueue_jobs(&[held, new_order(1)]).unwrap();
    gate.wait_for(1);
    super::leased(&queue, 2);
    assert_eq!(queue.database().cancels(ids[1].id()), Cancelled::Asked);
    gate.open();
    assert_eq!(finish(&queue, worker).stats.dead, 1);
}

/// For example because another letter has its id.
#[test]
fn a_cancelled_job_that_cannot_die_keeps_back_nothing_of_its_lease() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let depends = HandlerOptions::new().dependency("gateway");
    let worker = worker(&queue).lease(LEASE).hold_for(HOUR);
    let worker = worker.handle(gate.handler()).handle_any(|_| Ok(()));
    let worker = worker.handle(wait_for_cancel).options(depends).started();
    // After many quick jobs, the worker claims in batches.
    let quick = NewJob::raw("quick", "{}").unwrap();
    queue.enqueue_jobs(&vec![quick.clone(); 150]).unwrap();
    done(&worker, 150);
    let held = NewJob::new(&Hold {}).unwrap().priority(2);
    let jobs = [held, quick.priority(1), new_order(1), new_order(2)];
    let ids = queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    super::leased(&queue, 4);
    queue.cancels(ids[2].id());
    test.before(
        "INSERT ON redrive.dead_letters",
        "RAISE EXCEPTION 'no letters today'",
    );
    test.sql("SELECT redrive.open_breaker('gateway', '1 hour')");
    told(&test, &worker);
    gate.open();
    done(&worker, 152);
    test.reaches("jobs", 1);
    test.sql("DROP TRIGGER for_test ON redrive.dead_letters");
    stop(worker);
    assert_eq!(queue.letter(ids[2].id()).attempts, 0);
}
