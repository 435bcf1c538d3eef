//! Plans: every hot statement uses its index and touches few pages, with any statistics and with
//! any cached plan.

mod hot;

use redrive_tests::prelude::*;

use hot::{CALLERS, Hot, WORKERS};

/// The planner settings of the connections of a worker.
const PINNED: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
    SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan";

/// The defaults, as on a connection of a caller or a pooler.
const PLAIN: &str = "RESET ALL";

/// A million ready jobs in the segments, and enough rows elsewhere that a scan shows. The tables
/// are not analyzed.
const FILL: &str = "
    SELECT setval('redrive.job_id', 10000000);
    INSERT INTO redrive.jobs (id, segment, rank, queue, kind, payload, meta.priority)
    SELECT 1000000 + n, n % 8, -2 * (n % 3), CASE n % 10 WHEN 0 THEN 'other' ELSE 'orders' END, 'order', '{\"number\": 1}', n % 3
    FROM generate_series(1, 1000000) n;
    INSERT INTO redrive.group_policies (queue, mode, job_limit, on_death) VALUES ('orders', 'limit', 3, 'continue');
    INSERT INTO redrive.jobs (id, segment, queue, kind, payload, meta.group_key)
    SELECT 5000000 + n, 8, 'orders', 'order', '{\"number\": 1}', CASE WHEN n % 4 = 0 THEN 'big' ELSE 'g' || n % 20001 END
    FROM generate_series(1, 200000) n;
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id)
    SELECT 'orders', 'g' || n, 1, -n FROM generate_series(1, 20000) n;
    INSERT INTO redrive.rate_limits (queue, kind, each_group, starts, period, burst) VALUES ('orders', '', true, 100, '1 s', 100);
    INSERT INTO redrive.group_buckets (queue, group_key, full_at)
    SELECT 'orders', 'g' || n, now() + (n - 5000) * interval '1 second' FROM generate_series(1, 100000) n;
    INSERT INTO redrive.group_policies (queue, mode, job_limit, on_death) VALUES ('held', 'ordered', 1, 'hold');
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at)
    SELECT 'held', 'g' || n, 1, -1000000 - n, now() - n * interval '1 second' FROM generate_series(1, 100000) n;
    INSERT INTO redrive.jobs (id, segment, queue, kind, payload, meta.group_key)
    SELECT 6000000 + n, 8, 'held', 'order', '{\"number\": 1}', 'g' || n FROM generate_series(1, 100000) n;
    INSERT INTO redrive.jobs_delayed (id, run_at, queue, kind, payload)
    SELECT 3000000 + n, now() + (n - 5000) * interval '1 second', 'orders', 'order', '{}'
    FROM generate_series(1, 200000) n;
    INSERT INTO redrive.unique_keys (queue, key, job_id)
    SELECT 'orders', 'k' || n, n FROM generate_series(1, 200000) n;
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, group_id, enqueued_at, died_at, changed_at, state)
    SELECT n, 'orders', 'order', 'rejected', 'E', 'e', '{}', 1, now(), now() - (200000 - n) * interval '1 second',
           now() - (200000 - n) * interval '1 second', (ARRAY['open', 'recovered', 'redriving'])[1 + n % 3]
    FROM generate_series(1, 200000) n;
    SELECT redrive.set_protection(q, roles => ARRAY[session_user::text]) FROM unnest('{orders,none}'::text[]) q;
    INSERT INTO redrive.redrive_runs (state, filter, total, cursor) VALUES ('finished', '{}', 200000, 200000);
    INSERT INTO redrive.run_letters (run_id, ordinal, letter_id, outcome)
    SELECT 1, n, n, 'recovered' FROM generate_series(1, 200000) n;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT n % 3, 'orders', '{enqueued}', '{1}' FROM generate_series(1, 30000) n;
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at)
    VALUES ('00000000-0000-0000-0000-000000000001', 'orders', 'h', 1, 'v', 1, now() + interval '1 hour'),
           ('00000000-0000-0000-0000-000000000002', 'orders', 'h', 1, 'v', 1, now() - interval '1 minute');
    INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, metas)
    SELECT ('00000000-0000-0000-0001-' || lpad(n::text, 12, '0'))::uuid,
           ('00000000-0000-0000-0000-00000000000' || 1 + n % 2)::uuid, 'orders', j.*
    FROM generate_series(1, 1000) n, LATERAL (
        SELECT array_agg(n * 10 + i), array_agg('order'::text), array_agg('{}'::json), array_agg(now()),
               array_agg(ROW(NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 'k' || n * 10 + i, NULL, NULL, NULL)::redrive.job_meta)
        FROM generate_series(0, 9) i) j";

/// Turns autovacuum off, so that only the test changes the statistics.
const ALONE: &str = "
    DO $$
    DECLARE
        t text;
    BEGIN
        FOR t IN SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', t);
        END LOOP;
    END
    $$;
    ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER";

/// Removes the redriving letters during ANALYZE and restores them afterwards.
const NONE_REDRIVING: &str = "
    CREATE TABLE taken_out AS SELECT * FROM redrive.dead_letters WHERE state = 'redriving';
    SET session_replication_role = replica;
    DELETE FROM redrive.dead_letters WHERE state = 'redriving';
    ANALYZE redrive.dead_letters";
const MANY_REDRIVING: &str = "INSERT INTO redrive.dead_letters SELECT * FROM taken_out";

/// Runs each statement often enough for a cached generic plan: the server keeps one from the sixth
/// execution on.
fn plan(client: &mut Client, hot: &Hot) {
    client.sql(&format!("PREPARE {} AS {}", hot.name, statement(hot.name)));
    for _ in 0..7 {
        undone(client, &format!("EXECUTE {} {}", hot.name, arguments(hot)));
    }
}

fn arguments(hot: &Hot) -> String {
    match hot.arguments {
        "" => String::new(),
        arguments => format!("({arguments})"),
    }
}

/// Runs statements in a transaction that is rolled back.
fn undone(client: &mut Client, statement: &str) {
    let mut transaction = client.transaction().unwrap();
    transaction.sql(statement);
    transaction.rollback().unwrap();
}

/// Returns the scans of each large table.
const SCANS: &str = "SELECT relname::text, seq_scan FROM pg_stat_xact_all_tables \
    WHERE schemaname = 'redrive' AND seq_scan > 0 \
        AND relname ~ '^(jobs_.|jobs_waiting|group_slots|group_buckets|jobs_delayed|dead_letters|unique_keys|run_letters|audit)$' ORDER BY 1";

fn scans(transaction: &mut Transaction<'_>) -> Vec<(String, i64)> {
    transaction.rows(SCANS, &[])
}

/// Returns the rows that the nodes of a plan processed in all loops. This reveals a nested loop over
/// everything, which touches no page.
fn steps(node: &Value) -> f64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let rows = [
        "Actual Rows",
        "Rows Removed by Filter",
        "Rows Removed by Join Filter",
        "Rows Removed by Index Recheck",
    ];
    let own = rows.map(number).iter().sum::<f64>() * number("Actual Loops");
    let below = node["Plans"].as_array().into_iter().flatten().map(steps);
    own + below.sum::<f64>()
}

/// No statement changes more than a thousand rows, and no plan has more than a few dozen nodes.
const STEPS: f64 = 50_000.0;

/// Returns what is wrong with the plan of a statement.
fn wrong(client: &mut Client, hot: &Hot, planned: &str) -> String {
    let execute = format!("EXECUTE {} {}", hot.name, arguments(hot));
    let mut transaction = client.transaction().unwrap();
    let before = scans(&mut transaction);
    transaction.sql(&execute);
    let mut scanned = scans(&mut transaction);
    scanned.retain(|now| !before.contains(now));
    transaction.rollback().unwrap();
    let Reading { pages, plan } = fewest_pages(client, &execute);
    let steps = steps(&plan);
    if scanned.is_empty() && pages <= hot.pages && steps <= STEPS {
        return String::new();
    }
    let counts = format!("{pages} pages, {steps} steps, sequential scans {scanned:?}");
    format!("{}, planned {planned}: {counts}\n{plan:#}\n", hot.name)
}

#[test]
fn every_hot_statement_uses_its_index_with_any_statistics() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(ALONE);
    client.sql("VACUUM");
    client.sql("ANALYZE");
    let sessions = || -> Vec<(Client, Hot)> {
        let workers = hot::hot(WORKERS).map(|hot| (PINNED, hot));
        let callers = hot::hot(CALLERS).map(|hot| (PLAIN, hot));
        let prepared = workers.chain(callers).map(|(settings, hot)| {
            let mut client = test.client();
            client.sql(settings);
            plan(&mut client, &hot);
            (client, hot)
        });
        prepared.collect()
    };
    let early = sessions();
    client.sql(FILL);
    client.sql("ALTER TABLE redrive.dead_letters ENABLE TRIGGER USER");
    let late = sessions();
    let mut trouble = String::new();
    let mut check = |sessions: Vec<(Client, Hot)>, planned: &str| {
        for (mut client, hot) in sessions {
            trouble += &wrong(&mut client, &hot, planned);
        }
    };
    check(early, "on empty tables that were analyzed");
    check(late, "on full tables that were analyzed empty");
    client.sql("ANALYZE");
    check(sessions(), "on full tables that were analyzed");
    // The same without any statistics.
    client
        .sql("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relnamespace = 'redrive'::regnamespace; \
                        DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'redrive'::regnamespace)");
    check(sessions(), "on full tables without statistics");
    // And with statistics without any redriving letter.
    client.sql(NONE_REDRIVING);
    let sessions = sessions();
    client.sql(MANY_REDRIVING);
    check(sessions, "when no letter was on its way back");
    assert!(trouble.is_empty(), "{trouble}");
}
