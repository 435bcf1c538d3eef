//! The statements of a worker and of the exporter behind millions of dead rows that a snapshot keeps.

use std::time::{Duration, Instant};

use redrive::postgres::{Client, Statement};
use redrive::{Queue, Worker};
use redrive_benches::{
    Bench, Measurement, Outcome, Ran, Samples, Scenario, Target, handle_kinds, steps,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "held_statements",
    what: "Single statements while a snapshot keeps the dead rows of a day of heartbeats of 100 workers, of 8,000,000 \
           claims and of 8,000,000 delayed jobs, once a worker has stored a mark and compacted its tables, compared \
           with the same statements before.",
    run,
};

/// The planner settings of the connections of a worker.
const PINNED: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
                      SET plan_cache_mode = force_generic_plan";
const WORKERS: &str = "
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at)
    SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'held', 'h', 1, 'v', 1, now() + interval '1 day'
    FROM generate_series(1, 100) n;
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() + interval '1 day', 'held', 'kind-0', '{}' FROM generate_series(1, 1000)";
const HEARTBEAT: &str =
    "UPDATE redrive.workers SET expires_at = clock_timestamp() + interval '1 day'";
const LEASES: &str = "
    INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at)
    SELECT gen_random_uuid(), ('00000000-0000-0000-0000-' || lpad((n % 100 + 1)::text, 12, '0'))::uuid, 'held',
           ARRAY[n], '{kind-0}', ARRAY['{}'::json], ARRAY[now()]
    FROM generate_series(1, $1::bigint) n";
const DELAYED: &str = "
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() - interval '1 hour', 'held', 'kind-0', '{\"pad\": \"a hundred bytes of something\"}'
    FROM generate_series(1, $1::bigint) n";

/// The statements, and the arguments of each.
const STATEMENTS: [(&str, &str); 7] = [
    ("enqueue_one", "'held', 'kind-0', '{}', 0, 5"),
    (
        "claim",
        "'held', NULL, '{}', 10, 8388608, 1, gen_random_uuid(), gen_random_uuid(), '{-32768}', '{0}', '{32767}', NULL, 2",
    ),
    ("promote", "'held', 1000, NULL, NULL, 10000"),
    (
        "renew",
        "'{00000000-0000-0000-0000-000000000001}', '{held}', 'h', 1, 'v', '{1}', '{NULL}', '{86400000}', '{NULL}', '{1}', '{1}'",
    ),
    ("chores", "'{00000000-0000-0000-0000-000000000001}', 60000"),
    (
        "reap",
        "60000, 100, 3, 5000, 'manual', 10000, 16777216, ARRAY[gen_random_uuid()]",
    ),
    ("metrics_queues", ""),
];

fn run(bench: &mut Bench) -> Outcome {
    let rows = bench.sized(8_000_000_i64, 400_000);
    let heartbeats = bench.sized(4_320, 100);
    let queue = Queue::new(bench.db(), "held")?;
    let mut client = bench.client()?;
    client.batch_execute(WORKERS)?;
    let fresh = measure(bench)?;
    let _held = bench.hold_snapshot()?;
    let ran = Ran::default();
    let worker = handle_kinds(Worker::builder(&queue).slots(2), &ran)
        .lease(Duration::from_secs(6))
        .start()?;
    for _ in 0..heartbeats {
        client.batch_execute(HEARTBEAT)?;
    }
    for (from, to) in steps(rows, 100_000) {
        let some = to - from + 1;
        client.execute(LEASES, &[&some])?;
        client
            .batch_execute("DELETE FROM redrive.leases WHERE worker_id::text LIKE '00000000%'")?;
        // Deleted before the worker can promote them.
        let mut transaction = client.transaction()?;
        transaction.execute(DELAYED, &[&some])?;
        transaction.batch_execute("DELETE FROM redrive.jobs_delayed WHERE run_at < now()")?;
        transaction.commit()?;
    }
    until_met(&mut client)?;
    worker.stop(Duration::from_secs(10))?;
    let dead = measure(bench)?;
    for ((name, _), (fresh, dead)) in STATEMENTS.iter().zip(fresh.iter().zip(&dead)) {
        let name = format!("`{name}` behind {rows} dead rows, compared with a fresh schema");
        let row = Measurement::compared(name, "ms", fresh, dead);
        bench.report(row.target(Target::RatioAtMost(1.3)))?;
    }
    Ok(())
}

/// Waits until the worker has stored a mark of the delayed jobs and compacted the other tables.
fn until_met(client: &mut Client) -> Outcome {
    let met = "SELECT EXISTS (SELECT FROM redrive.delayed_marks WHERE queue = 'held')
                   AND redrive.table_bytes('redrive.leases') < 4194304
                   AND redrive.table_bytes('redrive.workers') < 65536";
    let deadline = Instant::now() + Duration::from_mins(2);
    while !client.query_one(met, &[])?.get::<_, bool>(0) {
        if Instant::now() > deadline {
            return Err("the worker has not stored a mark, or not compacted".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Returns the times of each statement in milliseconds, each in a transaction that is rolled back.
fn measure(bench: &Bench) -> Outcome<Vec<Samples>> {
    let mut client = bench.client()?;
    client.batch_execute(PINNED)?;
    let mut all = Vec::new();
    for (name, arguments) in STATEMENTS {
        let text = redrive::statements().find(|(known, _)| *known == name);
        let (_, text) = text.ok_or_else(|| format!("no statement is called `{name}`"))?;
        client.batch_execute(&format!("PREPARE {name} AS {text}"))?;
        let execute = match arguments {
            "" => format!("EXECUTE {name}"),
            arguments => format!("EXECUTE {name} ({arguments})"),
        };
        let execute = client.prepare(&execute)?;
        // The first executions plan, and fill caches.
        for _ in 0..5 {
            timed(&mut client, &execute)?;
        }
        let samples = (0..bench.sized(200, 20)).map(|_| timed(&mut client, &execute));
        all.push(samples.collect::<Outcome<Samples>>()?);
    }
    Ok(all)
}

fn timed(client: &mut Client, execute: &Statement) -> Outcome<f64> {
    let mut transaction = client.transaction()?;
    let start = Instant::now();
    transaction.query(execute, &[])?;
    let took = start.elapsed();
    transaction.rollback()?;
    Ok(took.as_secs_f64() * 1e3)
}
