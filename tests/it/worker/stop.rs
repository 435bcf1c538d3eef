//! Stop: running jobs end, other jobs are released, and no connection is left.

use redrive::worker::StopReport;
use redrive_tests::prelude::*;

use crate::worker_process::WorkerProcess;

/// A worker whose only slot waits at the gate, with `behind` more claimed jobs.
fn held(queue: &Queue, gate: &Gate, behind: usize) -> Worker {
    let worker = worker(queue).hold_for(HOUR).handle(gate.handler());
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(150)).unwrap();
    done(&worker, 150);
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.resize(1 + behind, new_order(1));
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    super::leased(queue, behind as u64 + 1);
    worker
}

/// Begins to stop the worker, opens the gate then, and waits for the end.
fn stop_at(worker: Worker, gate: &Gate) -> StopReport {
    let stop_handle = worker.stop_handle();
    let stopping = thread::spawn(move || stop(worker));
    wait_until("the stop to begin", SOON, || stop_handle.is_stopping());
    gate.open();
    stopping.join().expect("the stopping thread")
}

#[test]
fn stop_waits_for_running_handlers_and_refunds_the_other_jobs() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = held(&queue, &gate, 10);
    let stopped = stop_at(worker, &gate);
    let counts = (stopped.stats.done, stopped.stats.lost);
    assert_eq!(counts, (151, 0), "the running one was waited for");
    assert_eq!(stopped.still_running, []);
    assert_eq!((test.count("live_jobs"), test.untouched()), (10, 10));
    super::nothing_left(&test);
    assert_eq!(stopped.stats.released, 10, "it reports the released jobs");
}

#[test]
fn verdicts_during_the_stop_are_written() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let verdicts = |job: &Job<Order>| match job.payload().number {
        1 => Ok(()),
        2 => Err(Failure::reject("no")),
        _ => Err(Failure::retry("later").after(HOUR)),
    };
    let worker = worker(&queue).slots(3).runs(gate.passing_to(verdicts));
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    gate.wait_for(3);
    let stopped = stop_at(worker, &gate);
    let counts = stopped.stats;
    assert_eq!((counts.done, counts.dead, counts.retried), (1, 1, 1));
    assert_eq!((counts.lost, stopped.stats.released), (0, 0));
    let left = stats(queue.database(), "orders").expect("a letter and a delayed job");
    let left = (left.ready + left.leased, left.delayed, left.open);
    assert_eq!(left, (0, 1, 1));
}

/// Waits until no other session of the database is left.
#[track_caller]
fn no_session_left(test: &TestDatabase) {
    let mut client = test.client();
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    wait_until("no other", SOON, || scalar(&mut client, others) == 0);
}

#[test]
fn twenty_starts_and_stops_leave_no_connection_behind() {
    let test = TestDatabase::migrated();
    for round in 0..20 {
        let db: Database = test.open();
        let queue = Queue::new(&db, "orders").unwrap();
        let worker = worker(&queue).slots(2).runs(|_: &Job<Order>| Ok(()));
        queue.enqueue(&Order { number: round }).unwrap();
        if round % 2 == 0 {
            counted(&worker, "a job", |counts| counts.done >= 1);
        }
        stop(worker);
    }
    no_session_left(&test);
    super::nothing_left(&test);
    // Nor does one that is dropped.
    drop(willing(&test.queue("orders")));
    no_session_left(&test);
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let (test, queue, mut client) = TestDatabase::with_session();
    queue.enqueue(&Hold {}).unwrap();
    let mut process = WorkerProcess::start_with(&test, &queue, &["hour"]);
    wait_until("the job to begin", SOON, || {
        client.count("jobs") == 0 && client.count("leases") == 1
    });
    process.wait_until_it_listens();
    // Two signals that wait together arrive in any order, and two threads that take them may both be first.
    let status = process.ends_of("HUP", "QUIT");
    assert!(matches!(status.code(), Some(129 | 131)), "{status}");
}
