//! The time to read all metrics, source by source as the exporter does: on new tables, after VACUUM
//! ANALYZE, and with dead rows in front.

use std::time::Duration;

use prometheus::TextEncoder;
use redrive::metrics::{Reader, Source, to_proto};
use redrive::postgres::Client;
use redrive_benches::{Bench, Measurement, Outcome, Scenario, steps, timed};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "scrape",
    what: "Reading all metrics as text, with ten million ready jobs, a million delayed jobs and \
           a million letters.",
    run,
};

/// The number of measured readings.
const READINGS: usize = 200;
/// How long a reading may take.
const BUDGET: Duration = Duration::from_secs(9);

const FILL_JOBS: &str = "
    INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority, meta.ready_at)
    SELECT n * 4 / $2::bigint, CASE WHEN n % 10 = 0 THEN -10 ELSE 0 END, 'queue-' || n % 10, 'kind-' || n % 20, jsonb_build_object('order', n, 'pad', 'a hundred bytes of something'),
           CASE WHEN n % 10 = 0 THEN 5 ELSE 0 END, clock_timestamp() - ($2::bigint - n) * interval '10 milliseconds'
    FROM generate_series($1::bigint, $3::bigint) n";
const FILL_DELAYED: &str = "
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT clock_timestamp() + random() * interval '1 day', 'queue-' || n % 10, 'kind-' || n % 20, jsonb_build_object('order', n)
    FROM generate_series(1, $1::bigint) n";
const FILL_LETTERS: &str = "
    INSERT INTO redrive.dead_letters
        (queue, kind, cause, error_class, error_message, payload, history, group_id, enqueued_at, died_at)
    SELECT 'queue-' || n % 10, 'kind-' || n % 20, 'exhausted', 'Timeout', 'gateway timed out after ' || n % 977 || ' ms',
           jsonb_build_object('order', n, 'pad', repeat('x', 500)), '[]', n % 50 + 1,
           clock_timestamp() - interval '1 day', clock_timestamp() - ($1::bigint - n) * interval '2 seconds'
    FROM generate_series(1, $1::bigint) n";
const FILL_LEASES: &str = "
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at)
    SELECT gen_random_uuid(), 'queue-' || n % 10, 'web', n, '1', 16, clock_timestamp() + interval '1 day'
    FROM generate_series(1, 50) n;
    INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at)
    SELECT gen_random_uuid(), w.worker_id, w.queue, j.*
    FROM redrive.workers w, generate_series(1, 4), (
        SELECT array_agg(n), array_agg('kind-1'::text), array_agg(json_build_object('pad', repeat(md5(n::text), 4))), array_agg(now())
        FROM generate_series(1, 500) n) j";

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(10_000_000, 10_000);
    let mut client = bench.client()?;
    fill(&mut client, jobs)?;
    measure(bench, "as written, never analyzed")?;
    client.batch_execute("VACUUM ANALYZE")?;
    measure(bench, "vacuumed and analyzed")?;
    // A snapshot keeps vacuum from removing finished jobs.
    let _held = bench.hold_snapshot()?;
    client.execute(
        "DELETE FROM redrive.jobs j WHERE j.ctid = ANY (ARRAY(
             SELECT i.ctid FROM redrive.jobs_0 i WHERE i.queue = 'queue-1' ORDER BY i.rank, i.id LIMIT 100000))
         AND j.segment = 0",
        &[],
    )?;
    measure(bench, "100,000 dead rows in front")
}

fn fill(client: &mut Client, jobs: i64) -> Outcome<()> {
    let insert = client.prepare(FILL_JOBS)?;
    for (from, to) in steps(jobs, 500_000) {
        client.execute(&insert, &[&(from - 1), &jobs, &(to - 1)])?;
    }
    client.execute(FILL_DELAYED, &[&(jobs / 10)])?;
    // Skip their groups, which are not measured.
    client.batch_execute("ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER")?;
    client.execute(FILL_LETTERS, &[&(jobs / 10)])?;
    client.batch_execute("ALTER TABLE redrive.dead_letters ENABLE TRIGGER USER")?;
    client.batch_execute(FILL_LEASES)?;
    Ok(())
}

/// Reads repeatedly on a separate connection, and reports the times.
fn measure(bench: &mut Bench, when: &str) -> Outcome {
    let mut client = bench.client()?;
    let mut reader = Reader::new("bench");
    let mut scrape = || -> Outcome {
        let reading = reader.read(&mut client, BUDGET);
        let text = TextEncoder::new().encode_to_string(&to_proto(&reading.families))?;
        if let Some((source, error)) = reading.failures.first() {
            return Err(format!("{source:?}: {error}, of {} bytes", text.len()).into());
        }
        Ok(())
    };
    // The first readings plan, and fill caches.
    timed(3, &mut scrape)?;
    let times = timed(bench.sized(READINGS, 5), &mut scrape)?;
    let mut all = 0;
    let mut parts = Vec::new();
    for source in Source::DATABASE {
        let function = if source == Source::Totals {
            "metric_totals".to_owned()
        } else {
            format!("metrics_{}", source.as_str())
        };
        let pages = pages(&mut client, &function)?;
        parts.push(format!("{} {pages}", source.as_str()));
        if source != Source::Bloat {
            all += pages;
        }
    }
    let row = Measurement::new(format!("{when}, p50"), "ms", &times);
    let pages = parts.join(", ");
    bench.report(row.note(format!("pages by source: {pages}; without bloat {all}")))?;
    let p99 = times.at(0.99);
    bench.report(Measurement::new(format!("{when}, p99"), "ms", p99))
}

/// Counts the pages that a function touches.
fn pages(client: &mut Client, function: &str) -> Outcome<i64> {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS) SELECT metric FROM redrive.{function}()");
    for row in client.query(&explain, &[])? {
        let line: &str = row.get(0);
        if let Some(buffers) = line.trim().strip_prefix("Buffers: shared ") {
            let numbers = buffers.split_whitespace();
            let touched =
                numbers.filter(|word| word.starts_with("hit=") || word.starts_with("read="));
            return Ok(touched
                .filter_map(|word| word.split('=').nth(1)?.parse::<i64>().ok())
                .sum());
        }
    }
    Ok(0)
}
