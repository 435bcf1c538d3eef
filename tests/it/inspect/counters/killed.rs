//! Workers killed with SIGKILL under load, many times, leave exact counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redrive::{Job, NewJob};
use redrive_tests::{
    Finish, SOON, TestDatabase, drained, expire_leases, fold, no_drift, published, stop,
    wait_until, worker,
};

use crate::worker_process::WorkerProcess;

const KILLS: i64 = 6;

#[test]
fn killed_workers_leave_exact_counters() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "CREATE TABLE public.begun (job bigint); CREATE TABLE public.finished (job bigint)",
        )
        .unwrap();
    let db = test.open();
    let over = Arc::new(AtomicBool::new(false));
    let enqueuer = {
        let (queue, over) = (test.queue("orders"), Arc::clone(&over));
        thread::spawn(move || {
            let mut enqueued = 0_i64;
            while !over.load(Ordering::SeqCst) {
                let job = NewJob::new(&Finish {}).expect("a job");
                enqueued += 20;
                queue.enqueue_jobs(&vec![job; 20]).expect("enqueue");
                wait_until("the backlog to be short", SOON, || {
                    over.load(Ordering::SeqCst)
                        || redrive_tests::stats(queue.database(), "orders")
                            .is_none_or(|stats| stats.ready < 60)
                });
            }
            enqueued
        })
    };
    let folder = {
        let (mut client, over) = (test.client(), Arc::clone(&over));
        thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                client
                    .batch_execute("SELECT redrive.fold_metrics(100, 8192)")
                    .expect("fold");
            }
        })
    };
    for kill in 1..=KILLS {
        let before: i64 = client
            .query_one("SELECT count(*) FROM public.finished", &[])
            .unwrap()
            .get(0);
        let mut process = WorkerProcess::start(&test, &test.queue("orders"));
        wait_until("it to be in the middle of its work", SOON, || {
            let asked = "SELECT (SELECT count(*) FROM public.finished) > $1, EXISTS (SELECT FROM redrive.leases)";
            let row = client.query_one(asked, &[&(before + 2 * kill)]).unwrap();
            row.get(0) && row.get(1)
        });
        process.kill();
        no_drift(&db);
        expire_leases(&mut client);
        no_drift(&db);
    }
    over.store(true, Ordering::SeqCst);
    let enqueued = enqueuer.join().expect("the enqueuer");
    folder.join().expect("the folder");

    // A worker that is not killed runs the remaining jobs.
    let queue = test.queue("orders");
    let last = worker(&queue)
        .handle(|_: &Job<Finish>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    stop(last);
    no_drift(&db);
    fold(&mut client);
    let series = published(&mut client);
    let of = |name: &str| series.get(name).copied().unwrap_or_default();
    let dead = of("redrive_jobs_dead_lettered_total{orders,worker_lost}");
    assert_eq!(of("redrive_jobs_enqueued_total{orders}"), enqueued);
    assert_eq!(
        of("redrive_jobs_succeeded_total{orders,finish}") + dead,
        enqueued
    );
    assert_eq!(of("redrive_queue_live_jobs{orders}"), 0);
    assert_eq!(
        of("redrive_jobs_claimed_total{orders}"),
        of("redrive_jobs_succeeded_total{orders,finish}")
            + of("redrive_job_attempts_failed_total{orders,finish,worker_lost}"),
        "each claim ended in one way"
    );
    assert_eq!(
        of("redrive_job_end_to_end_seconds{orders}"),
        of("redrive_jobs_succeeded_total{orders,finish}")
    );
    assert!(of("redrive_leases_lost_total{orders}") >= KILLS);
}
