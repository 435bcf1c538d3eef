//! Refunds: a job whose handler has started, or may have, is released without a charge ten times at most, whatever the
//! path. The handler's transaction in an outage is tested in `worker::spoiled_transaction`, and the stop in
//! `worker::errors::an_error_because_of_a_stop_is_not_charged`.

use redrive_tests::prelude::*;

const LEASE: Uuid = Uuid::from_u128(7);
const JOB: i64 = 7;

/// Stores a leased job in its first attempt.
fn lease(client: &mut Client, refunds: i16, max_attempts: i32) {
    let insert = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, \
                                              metas[1].max_attempts, metas[1].refunds) \
                  VALUES ($1, $2, 'orders', ARRAY[$3::bigint], '{order}', '{\"{}\"}', ARRAY[now()], \
                          $4::integer, $5::smallint)";
    let nobody = Uuid::nil();
    client.change(insert, &[&LEASE, &nobody, &JOB, &max_attempts, &refunds]);
}

/// Returns where the job is, its attempts and its refunds.
fn job(client: &mut Client) -> (String, i32, Option<i32>) {
    let found = "SELECT 'ready', coalesce((meta).attempt, 0), coalesce((meta).refunds, 0)::integer FROM redrive.jobs \
                 UNION ALL SELECT 'delayed', coalesce((meta).attempt, 0), coalesce((meta).refunds, 0) FROM redrive.jobs_delayed \
                 UNION ALL SELECT format('%s %s', cause, error_class), attempts, NULL FROM redrive.dead_letters";
    client.row(found, &[])
}

/// Releases all leases of the worker, of which it knows these started jobs.
fn release(client: &mut Client, started: Option<&[i64]>) {
    assert_eq!(Hand::of("orders").releases(client, None, started), 1);
}

/// Writes the verdict on an attempt that was interrupted or did not begin.
fn give_back(client: &mut Client, verdict: &str) {
    let settlement = Settlement {
        queue: "orders",
        lease: LEASE,
        verdicts: &[(JOB, verdict, Some("exhausted"))],
        delay_ms: 1000,
        counts: &[],
    };
    assert_eq!(settlement.write(client).len(), 1);
}

type Path = fn(&mut Client);

#[test]
fn the_eleventh_release_of_a_job_is_charged_on_every_path() {
    // Each path, and where a job is afterwards: returned, or dead.
    let stop: Path = |client| release(client, Some(&[JOB]));
    let unknown_lease: Path = |client| release(client, None);
    let outage: Path = |client| give_back(client, "refund");
    for (name, path, back, dead) in [
        ("a stop", stop, "ready", "exhausted released"),
        ("no lease", unknown_lease, "ready", "exhausted released"),
        ("an outage", outage, "delayed", "exhausted Broken"),
    ] {
        for (refunds, max_attempts, expected) in [
            (0, 1, (back, 0, Some(1))),
            (9, 1, (back, 0, Some(10))),
            (10, 2, (back, 1, Some(10))),
            (10, 1, (dead, 1, None)),
        ] {
            let (_test, mut client) = TestDatabase::with_client();
            lease(&mut client, refunds, max_attempts);
            path(&mut client);
            let (place, attempts, refunds) = job(&mut client);
            assert_eq!((&*place, attempts, refunds), expected, "{name}");
        }
    }
}

#[test]
fn a_job_that_never_started_costs_no_refund_and_stays_a_suspect() {
    let (_test, mut client) = TestDatabase::with_client();
    lease(&mut client, 10, 1);
    release(&mut client, Some(&[]));
    assert_eq!(job(&mut client), ("ready".to_owned(), 0, Some(10)));
    client.sql("DELETE FROM redrive.jobs");
    lease(&mut client, 10, 1);
    client.sql(
        "UPDATE redrive.leases SET metas[1].crashes = 2, metas[1].outage_since = '2026-01-01'",
    );
    give_back(&mut client, "unrun");
    assert_eq!(job(&mut client), ("delayed".to_owned(), 0, Some(10)));
    let suspect = "jobs_delayed WHERE (meta).crashes = 2 AND (meta).outage_since = '2026-01-01'";
    assert_eq!(client.count(suspect), 1);
}

/// A stop gives up verdicts that the database rejects, and releases their jobs, whose handlers have run.
#[test]
fn the_release_of_a_verdict_that_a_stop_gives_up_is_counted() {
    let (test, queue, mut client) = TestDatabase::with_session();
    client.sql("CREATE SEQUENCE public.runs");
    let refuse = "RAISE EXCEPTION 'no letters today'";
    test.before("INSERT ON redrive.dead_letters", refuse);
    let url = test.url().to_owned();
    let worker = worker(&queue).runs(move |_: &Job<Order>| {
        let mut client = Client::connect(&url, NoTls)?;
        client.execute("SELECT nextval('public.runs')", &[])?;
        Err(Failure::reject("never"))
    });
    queue.enqueue_job(new_order(1)).unwrap();
    wait_until("the verdict to be rejected", SOON, || {
        client.ask("SELECT is_called FROM public.runs", &[])
    });
    worker.stop(Duration::from_secs(5)).unwrap();
    assert_eq!(job(&mut client), ("ready".to_owned(), 0, Some(1)));
}

/// The database rejects the texts of an error: the attempt counts all the same.
#[test]
fn a_failure_whose_error_is_rejected_is_charged() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let refuse = "IF (NEW.meta).history::text LIKE '%unspeakable%' THEN RAISE EXCEPTION 'no such words'; END IF";
    test.before("INSERT ON redrive.jobs_delayed", refuse);
    let worker = worker(&queue).backoff(Backoff::fixed(HOUR));
    let worker = worker.runs(|_: &Job<Order>| Err(Failure::retry("unspeakable")));
    queue.enqueue(&Order { number: 1 }).unwrap();
    retried(&worker, 1);
    worker.stop(Duration::ZERO).unwrap();
    assert_eq!(job(&mut client), ("delayed".to_owned(), 1, Some(0)));
}
