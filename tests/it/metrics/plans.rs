//! A reading never scans jobs or letters, with any statistics, and touches few pages.

use std::fmt::Write as _;

use postgres::Client;
use redrive_tests::{TestDatabase, fewest_pages};

/// Over a million rows that were never analyzed or vacuumed.
const FILL: &str = "
    ALTER TABLE redrive.jobs_0 SET (autovacuum_enabled = off);
    ALTER TABLE redrive.jobs_1 SET (autovacuum_enabled = off);
    ALTER TABLE redrive.jobs_delayed SET (autovacuum_enabled = off);
    ALTER TABLE redrive.dead_letters SET (autovacuum_enabled = off);
    ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER;
    INSERT INTO redrive.jobs (segment, queue, kind, payload, priority)
    SELECT n / 400000, 'q' || n % 5, 'order', '{\"number\": 1}', n % 3 FROM generate_series(0, 799999) n;
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() + n * interval '1 second', 'q' || n % 5, 'order', '{}' FROM generate_series(1, 100000) n;
    INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, group_id, enqueued_at, died_at)
    SELECT 'q' || n % 5, 'order', 'rejected', 'E', 'e', '{}', 1, now(), now() - (200000 - n) * interval '10 seconds'
    FROM generate_series(1, 200000) n";

const SOURCES: [&str; 5] = ["queues", "letters", "operations", "tables", "server"];

/// Returns the pages that a source touches in a session with a cached plan.
fn pages(client: &mut Client, source: &str) -> i64 {
    let asked = format!("SELECT metric FROM redrive.metrics_{source}()");
    fewest_pages(client, &asked).pages
}

/// Returns the large tables that the sources scanned in a transaction.
fn scanned(client: &mut Client) -> Vec<String> {
    let mut transaction = client.transaction().unwrap();
    for source in SOURCES {
        transaction
            .batch_execute(&format!("SELECT FROM redrive.metrics_{source}()"))
            .unwrap();
    }
    let scans = "SELECT relname::text FROM pg_stat_xact_all_tables WHERE schemaname = 'redrive' AND seq_scan > 0 \
                 AND (relname LIKE 'jobs%' OR relname IN ('dead_letters', 'groups', 'run_letters'))";
    let scans = transaction.query(scans, &[]).unwrap();
    scans.iter().map(|row| row.get(0)).collect()
}

#[track_caller]
fn is_cheap(client: &mut Client, when: &str) {
    assert_eq!(scanned(client), [""; 0], "{when}");
    let mut report = String::new();
    let mut all = 0;
    for source in SOURCES {
        let touched = pages(client, source);
        write!(report, " {source} {touched}").unwrap();
        all += touched;
    }
    assert!(all < 5000, "{when}, pages touched:{report}");
}

#[test]
fn a_reading_never_scans_tables_and_touches_few_pages() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    // A session with cached plans from empty tables.
    let mut early = test.client();
    early.batch_execute("ANALYZE").unwrap();
    for source in SOURCES {
        pages(&mut early, source);
    }
    client.batch_execute(FILL).unwrap();
    is_cheap(&mut early, "planned on empty tables");
    is_cheap(&mut test.client(), "never analyzed");
    client.batch_execute("ANALYZE").unwrap();
    is_cheap(&mut early, "planned on empty tables, analyzed now");
    is_cheap(&mut test.client(), "analyzed");
}

#[test]
fn the_size_of_payloads_does_not_slow_the_lease_metrics() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let lease = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, enqueued_at, payloads) \
         SELECT gen_random_uuid(), gen_random_uuid(), 'orders', j.* \
         FROM generate_series(1, 20), ( \
             SELECT array_agg(n), array_agg('order'::text), array_agg(now()), \
                    array_agg((SELECT json_agg(md5(i::text || n)) FROM generate_series(1, $1) i)) \
             FROM generate_series(1, 20) n) j";
    client.execute(lease, &[&100]).unwrap();
    let small = pages(&mut client, "queues");
    client.batch_execute("TRUNCATE redrive.leases").unwrap();
    client.execute(lease, &[&2000]).unwrap();
    let large = pages(&mut client, "queues");
    assert!(large <= small + 5, "{large} pages instead of {small}");
}
