//! New columns of leased jobs: workers of the version before and after such a migration work side by side.

use std::fs;

use postgres::Client;
use redrive::{Failure, Job, Queue, Worker};
use redrive_tests::{Lost, Order, TestDatabase, counted, drained, reap, scalar, stop, worker};

/// Adds the column `tag` as a migration of a newer version would: to jobs and their metas, and in the functions that
/// read leases.
fn add_a_column(client: &mut Client) {
    let baseline = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../migrations/functions/leases.sql"
    );
    let baseline = fs::read_to_string(baseline).unwrap();
    let from = baseline.find("-- Returns whether a job is as").unwrap();
    let to = baseline
        .find("-- Returns the metas of claimed jobs")
        .unwrap();
    let mut functions = baseline[from..to].to_owned();
    for (old, new) in [
        ("job.group_key) = 0", "job.group_key, job.tag) = 0"),
        ("job.group_key)::", "job.group_key, job.tag)::"),
        ("j.group_key\n", "j.group_key, j.tag\n"),
        ("headers, group_key);", "headers, group_key, tag);"),
    ] {
        assert!(functions.contains(old), "{old}: {functions}");
        functions = functions.replace(old, new);
    }
    client
        .batch_execute(&format!(
            "BEGIN;
             ALTER TYPE redrive.job_meta ADD ATTRIBUTE tag text;
             ALTER TYPE redrive.job ADD ATTRIBUTE tag text;
             ALTER TABLE redrive.jobs ADD COLUMN tag text;
             {functions}
             COMMIT"
        ))
        .unwrap();
}

/// Runs jobs that succeed, are retried and die, most of them in one lease.
fn run(queue: &Queue, worker: &Worker, round: u64) {
    queue.enqueue_many(&Order::up_to(40)).unwrap();
    counted(worker, "the jobs to end", |counts| {
        (counts.done, counts.dead) == (36 * round, 4 * round)
    });
    assert_eq!(worker.stats().retried, 4 * round);
}

/// Leases a job as a worker that is lost, and returns it with this statement.
fn lose_a_lease(client: &mut Client) {
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
             VALUES (gen_random_uuid(), gen_random_uuid(), 'other', ARRAY[nextval('redrive.job_id')], \
                     '{order}', ARRAY['{}'::json], ARRAY[now()])",
        )
        .unwrap();
    assert!(matches!(reap(client)[..], [Lost::Back(_)]));
}

#[test]
fn a_column_can_be_added_to_leases_while_workers_run() {
    let test = TestDatabase::migrated();
    let (queue, mut client) = (test.queue("orders"), test.client());
    let worker = worker(&queue)
        .handle(
            |job: &Job<Order>| match (job.payload().number % 10, job.attempt()) {
                (3, 1) => Err(Failure::retry("once")),
                (7, _) => Err(Failure::reject("never")),
                _ => Ok(()),
            },
        )
        .start()
        .unwrap();
    // The plans of the worker are from before the migration.
    run(&queue, &worker, 1);
    add_a_column(&mut client);
    // Its jobs do not have the column.
    run(&queue, &worker, 2);
    lose_a_lease(&mut client);
    // Those of newer programs do.
    client
        .batch_execute("ALTER TABLE redrive.jobs ALTER COLUMN tag SET DEFAULT 'blue'")
        .unwrap();
    run(&queue, &worker, 3);
    lose_a_lease(&mut client);
    let tag = "SELECT count(*) FROM redrive.leases l, redrive.jobs_of(l) j WHERE j.tag = 'blue'";
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, metas) \
             VALUES (gen_random_uuid(), gen_random_uuid(), 'other', '{1,2}', '{a,b}', \
                     ARRAY['{}'::json, '{}'], ARRAY[now(), now()], '{NULL,\"(,,,,,,,,,,,,blue)\"}')",
        )
        .unwrap();
    assert_eq!(scalar(&mut client, tag), 1);
    let leased =
        "SELECT count(*) FROM redrive.live_jobs WHERE state = 'leased' AND queue = 'other'";
    assert_eq!(scalar(&mut client, leased), 2);
    stop(worker);
    drained(&queue);
}
