//! The size of letters.
//!
//! The letters have a payload of a kilobyte, a backtrace of ten, and five attempts; 95 of a hundred
//! died of one failure, the others of a hundred, of which one is rare and long past.

use redrive_benches::{Bench, Measurement, Outcome, Samples, Scenario, fill_letters};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "letters",
    what: "Bytes of a letter, compared with a bare table of id and payload.",
    run,
};

const BASELINE: &str = "DROP TABLE IF EXISTS baseline;
    CREATE TABLE baseline (id bigint PRIMARY KEY, payload jsonb NOT NULL)";
const FILL_BASELINE: &str =
    "INSERT INTO baseline SELECT l.id, l.payload FROM redrive.dead_letters l
    WHERE l.id > $1 AND l.id <= $2";
const FILL: &str = "
    INSERT INTO redrive.dead_letters
        (queue, kind, cause, error_class, error_message, error_detail, payload, history, run_ms, worker_id,
         host, version, pid, attempts, enqueued_at, died_at)
    SELECT CASE WHEN n % 3 = 0 THEN 'invoices' ELSE 'orders' END, 'order.placed', 'exhausted',
           CASE WHEN n % 20 > 0 THEN 'reqwest::Error' WHEN n % 100000 = 20 THEN 'Rare' ELSE 'Class' || n / 20 % 100 END,
           'gateway timed out after ' || n % 977 || ' ms for order ' || n,
           'caused by: timeout of order ' || n || E'\\n' || repeat(E'  12: shop::gateway::pay at src/gateway.rs:118\\n', 215),
           jsonb_build_object('order', n, 'amount', n % 1000, 'customer', jsonb_build_object('id', n % 5000), 'pad', (
               SELECT string_agg(md5((n * 31 + k)::text), '') FROM generate_series(1, 29) k)),
           h.history, n % 977, '0b9a5f6e-2f3c-4e57-8a54-3d1c0b9d8c11', 'web-' || n % 4, '1.4.2', 4711, 5,
           clock_timestamp() - interval '1 day', clock_timestamp() - ($3::bigint - n) * interval '50 milliseconds'
    FROM generate_series($1::bigint, $2::bigint) n
    CROSS JOIN LATERAL (
        SELECT redrive.history_before(redrive.add_attempt(redrive.add_attempt(redrive.add_attempt(
            jsonb_build_array(a.r), a.r || '{\"attempt\": 2}'), a.r || '{\"attempt\": 3}'),
            a.r || '{\"attempt\": 4}'), a.r || '{\"attempt\": 5, \"outcome\": \"exhausted\"}') AS history
        FROM (SELECT jsonb_build_object('generation', 0, 'attempt', 1, 'outcome', 'failed', 'run_ms', n % 977,
            'error_class', 'reqwest::Error', 'error_message', 'gateway timed out after ' || n % 977 || ' ms for order ' || n,
            'worker', '0b9a5f6e-2f3c-4e57-8a54-3d1c0b9d8c11', 'host', 'web-' || n % 4, 'version', '1.4.2', 'pid', 4711,
            'ended_at', clock_timestamp()) AS r) a
    ) h";

fn run(bench: &mut Bench) -> Outcome {
    let letters = bench.sized(1_000_000, 1_000);
    let mut client = bench.client()?;
    fill_letters(&mut client, FILL, letters)?;
    client.batch_execute(BASELINE)?;
    let first: i64 = client
        .query_one("SELECT min(id) - 1 FROM redrive.dead_letters", &[])?
        .get(0);
    // A tenth is enough.
    let some = letters / 10;
    client.execute(FILL_BASELINE, &[&first, &(first + some)])?;
    let mut bytes = |table: &str| -> Outcome<i64> {
        let size = client.query_one(
            "SELECT pg_total_relation_size($1::text::regclass)",
            &[&table],
        )?;
        Ok(size.get(0))
    };
    let baseline = bytes("baseline")? / some;
    let mut all = 0;
    let mut parts = Vec::new();
    for table in [
        "dead_letters",
        "details",
        "groups",
        "failure_hours",
        "letter_deltas",
    ] {
        let size = bytes(&format!("redrive.{table}"))?;
        parts.push(format!("{table} {}", size / letters));
        all += size;
    }
    let one = |bytes: i64| -> Outcome<Samples> { Ok(f64::from(i32::try_from(bytes)?).into()) };
    let name = "a letter with its indexes, compared with id and payload";
    let row = Measurement::compared(name, "bytes", &one(baseline)?, &one(all / letters)?);
    bench.report(row.note(parts.join(", ")))
}
