//! The sources of the metrics, compared with rows that a test wrote.

mod groups;
mod jobs;
mod letters;
mod schedules;
mod server;

use redrive::metrics::{CATALOGUE, Reader, Reading, Source};
use redrive_tests::prelude::*;

/// A queue in every state, with a busy, a waiting and a lost worker and their leases.
const LIVE: &str = "
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, waiting, expires_at) VALUES
        ('00000000-0000-0000-0000-000000000001', 'orders', 'h', 1, '1', 4, NULL, false, now() + interval '1 hour'),
        ('00000000-0000-0000-0000-000000000002', 'orders', 'h', 2, '1', 2, '{order}', true, now() + interval '1 hour'),
        ('00000000-0000-0000-0000-000000000003', 'orders', 'h', 3, '1', 8, '{order}', false, now() - interval '1 minute');
    INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, done, ids, kinds, payloads, enqueued_at)
    SELECT gen_random_uuid(), w.worker_id::uuid, 'orders', now() - w.age, w.done::integer[], j.*
    FROM (VALUES ('00000000-0000-0000-0000-000000000001', interval '10 seconds', 6, '{1,2}'),
                 ('00000000-0000-0000-0000-000000000001', interval '5 seconds', 3, '{}'),
                 ('00000000-0000-0000-0000-000000000003', interval '100 seconds', 2, '{}'),
                 ('00000000-0000-0000-0000-000000000009', interval '90 seconds', 1, '{}'),
                 ('00000000-0000-0000-0000-000000000009', interval '70 seconds', 1, '{}')) AS w (worker_id, age, jobs, done),
         LATERAL (SELECT array_agg(n), array_agg('order'::text), array_agg(json_build_object('pad', repeat('x', 100))), array_agg(now())
                  FROM generate_series(1, w.jobs) n) j;
    INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority, meta.ready_at)
    SELECT 0, CASE n WHEN 2 THEN -10 ELSE 0 END, 'orders', 'order', '{}', CASE n WHEN 2 THEN 5 ELSE 0 END, now() - n * interval '1 hour'
    FROM generate_series(1, 3) n;
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() + interval '1 hour', q, 'order', '{}' FROM unnest('{orders,orders,mail}'::text[]) q";

fn reading(client: &mut Client) -> Reading {
    let reading = read(&mut Reader::new("1"), client);
    assert!(reading.failures.is_empty(), "{:?}", reading.failures);
    reading
}

/// Returns what is published of these rows.
fn reading_of(rows: &str) -> Reading {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(rows);
    reading(&mut client)
}

#[track_caller]
fn about(reading: &Reading, name: &str, value: f64) {
    let found = series(reading, name);
    // The database of a test can be slow, but not by a minute.
    let is_near = found.is_some_and(|found| found >= value && found < value + 60.0);
    assert!(is_near, "{name}: {found:?}, not about {value}");
}

#[test]
fn every_source_publishes_only_metrics_of_the_catalogue() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(LIVE);
    client.sql("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at) \
             VALUES ('orders', 'order', 'rejected', 'E', 'e', '{}', now()); \
             SELECT redrive.set_rate_limit('orders', 1000); \
             SELECT redrive.schedule('hourly', 'orders', 'order', '{}', every => '1 hour')");
    let sources = Source::DATABASE.into_iter();
    for source in sources.filter(|source| *source != Source::Totals) {
        let function = format!("redrive.metrics_{}()", source.as_str());
        let asked = format!("SELECT metric, labels FROM {function}");
        let rows: Vec<(String, Vec<String>)> = client.rows(&asked, &[]);
        for (name, labels) in rows {
            let metric = CATALOGUE.iter().find(|metric| metric.name == name);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not in the catalogue"));
            assert_eq!(metric.source, source, "{name}");
            assert_eq!(metric.labels.len(), labels.len(), "{name}");
            for (label, value) in metric.labels.iter().zip(&labels) {
                let is_known = label.values.is_empty() || label.values.contains(&&**value);
                assert!(is_known, "{name}: {} is not a {}", value, label.name);
            }
        }
    }
}
