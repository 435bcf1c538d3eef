//! Live jobs, breakers and segments.

use redrive::metrics::{OTHER, Reading};
use redrive_tests::prelude::*;

use super::{LIVE, about, reading, reading_of};

#[test]
fn live_jobs_are_published_by_queue_and_state_with_their_ages() {
    let reading = reading_of(LIVE);
    for (queue, state, jobs) in [
        ("orders", "ready", 3.0),
        ("orders", "delayed", 2.0),
        ("orders", "leased", 11.0),
        ("mail", "ready", 0.0),
        ("mail", "delayed", 1.0),
        ("mail", "leased", 0.0),
    ] {
        reads(&reading, "redrive_queue_jobs", &[queue, state], jobs);
        reads(&reading, "redrive_queue_jobs_capped", &[queue, state], 0.0);
    }
    // The second one has the highest priority, so it is the first in the order of claims. The third
    // one has waited for longest.
    for (name, seconds) in [
        ("oldest_ready_age_seconds", 10_800.0),
        ("next_ready_age_seconds", 7200.0),
        ("overdue_age_seconds", 0.0),
        ("oldest_leased_age_seconds", 100.0),
    ] {
        about(&reading, &format!("queue_{name}{{orders}}"), seconds);
        says(&reading, &format!("queue_{name}{{mail}}"), 0.0);
    }
    says(&reading, "queue_overdue_leases{orders}", 3.0);
}

#[test]
fn ready_jobs_of_kinds_that_no_live_worker_handles_are_counted() {
    const UNHANDLED: &str = "redrive_queue_unhandled_jobs";
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority) \
             SELECT n % 8, -2 * (n % 3), q, k, '{}', n % 3 \
             FROM generate_series(1, 5) n, unnest('{one,many,all,none}'::text[]) q, unnest('{a,b,c}'::text[]) k; \
             INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at) \
             SELECT gen_random_uuid(), q, 'h', 1, '1', 1, k::text[], now() + e::interval \
             FROM (VALUES ('one', '{a}', '1h'), ('one', '{b}', '-1s'), ('many', '{a}', '1h'), ('many', '{c,x}', '1h'), \
                          ('all', '{a}', '1h'), ('all', NULL, '1h')) v (q, k, e)");
    let found = reading(&mut client);
    for (queue, jobs) in [("one", 10.0), ("many", 5.0), ("all", 0.0), ("none", 15.0)] {
        reads(&found, UNHANDLED, &[queue], jobs);
    }
    // They stay behind while others come and go, so they are found before a backlog.
    let insert = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                  SELECT 0, 'one', 'a', '{}' FROM generate_series(1, 20000)";
    client.sql(insert);
    reads(&reading(&mut client), UNHANDLED, &["one"], 10.0);
}

#[test]
fn ages_are_those_of_jobs_that_a_worker_may_take() {
    let (_test, mut client) = TestDatabase::with_client();
    // The first job of each queue has waited for 9 hours, and the second one for one. No worker takes the first one, because
    // of its kind or its group, or there is none.
    client.sql(
        "SELECT redrive.set_group_policy('grouped', 'ordered', on_death => 'hold'); \
         INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at) VALUES ('grouped', 'g', 1, -1, now()); \
         INSERT INTO redrive.jobs (segment, queue, kind, payload, meta.group_key, meta.ready_at) \
         SELECT CASE WHEN r.key IS NULL THEN 0 ELSE 8 END, r.queue, r.kind, '{}', r.key, now() - r.hours * interval '1 hour' \
         FROM (VALUES ('unhandled', 'x', NULL, 9), ('grouped', 'a', 'g', 9), ('unserved', 'x', NULL, 9), \
                      ('unhandled', 'a', NULL, 1), ('grouped', 'a', NULL, 1), ('unserved', 'a', NULL, 1)) \
              r (queue, kind, key, hours) ORDER BY r.hours DESC; \
         INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at) \
         SELECT gen_random_uuid(), q, 'h', 1, '1', 4, '{a}', now() + interval '1 hour' \
         FROM unnest('{unhandled,grouped}'::text[]) q",
    );
    // More jobs than are counted, behind the first ones.
    for more in [0_i32, 3000] {
        let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                     SELECT 0, q, 'a', '{}' FROM unnest('{unhandled,grouped,unserved}'::text[]) q, generate_series(1, $1) n";
        client.change(added, &[&more]);
        let reading = reading(&mut client);
        for (queue, hours) in [("unhandled", 1.0), ("grouped", 1.0), ("unserved", 9.0)] {
            for age in ["oldest", "next"] {
                let name = format!("queue_{age}_ready_age_seconds{{{queue}}}");
                about(&reading, &name, hours * 3600.0);
            }
        }
    }
}

#[test]
fn ready_jobs_are_counted_by_at_most_twenty_kinds() {
    // Kind `kN` has N jobs. Two kinds without many jobs have succeeded before.
    let found = reading_of(
        "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT 0, 'many', 'k' || k, '{}' FROM generate_series(1, 23) k, generate_series(1, k); \
             INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT 0, 'few', 'k1', '{}' FROM generate_series(1, 7); \
             INSERT INTO redrive.metric_slots (label, queue, name) \
             VALUES ('kind', 'many', 'k1'), ('kind', 'many', 'k2'), ('kind', 'many', 'idle')",
    );
    let by_kind = |of: &str, jobs| says(&found, &format!("queue_ready_jobs_by_kind{{{of}}}"), jobs);
    for kind in (7..=23).chain([1, 2]) {
        by_kind(&format!("many,k{kind}"), f64::from(kind));
    }
    by_kind(&format!("many,{OTHER}"), 3.0 + 4.0 + 5.0 + 6.0);
    by_kind("few,k1", 7.0);
}

#[test]
fn the_oldest_job_is_found_behind_jobs_of_higher_priorities_and_in_any_segment() {
    const OLDEST: &str = "queue_oldest_ready_age_seconds";
    const NEXT: &str = "queue_next_ready_age_seconds";
    let (_test, mut client) = TestDatabase::with_client();
    let mut add = |queue: &str, priority: i16, segment: i16, jobs: i32, age: i32| {
        let added = "INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority, meta.ready_at) \
                     SELECT $3::smallint, -2 * $2::smallint, $1::text, 'order', '{}', $2::smallint, now() - $5::integer * interval '1 hour' \
                     FROM generate_series(1, $4::integer)";
        client.change(added, &[&queue, &priority, &segment, &jobs, &age]);
    };
    // New jobs of a higher priority keep arriving.
    add("starved", -5, 3, 1, 7);
    add("starved", 5, 4, 500, 0);
    // A retried job keeps its id, so it is in front of an older one.
    add("retried", 0, 0, 9, 0);
    add("retried", 0, 1, 1, 6);
    // One of many priorities. The lowest ones are searched.
    for priority in -50..50 {
        add("many", priority, 2, 1, 0);
    }
    add("many", -45, 5, 1, 5);
    let reading = reading(&mut client);
    for (queue, hours) in [("starved", 7.0), ("retried", 6.0), ("many", 5.0)] {
        about(&reading, &format!("{OLDEST}{{{queue}}}"), hours * 3600.0);
        about(&reading, &format!("{NEXT}{{{queue}}}"), 0.0);
    }
}

#[test]
fn counts_over_the_cap_are_marked() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut add = |queue: &str, jobs: i32| {
        let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                     SELECT n % 4, $1::text, 'order', '{}' FROM generate_series(1, $2) n";
        client.change(added, &[&queue, &jobs]);
        reading(&mut client)
    };
    let capped = |reading: &Reading, queue: &str, jobs: f64, is_capped: f64| {
        for (name, value) in [
            ("queue_jobs{%,ready}", jobs),
            ("queue_jobs_capped{%,ready}", is_capped),
            ("queue_ready_jobs_by_kind{%,order}", jobs),
            ("queue_unhandled_jobs{%}", jobs),
        ] {
            says(reading, &name.replace('%', queue), value);
        }
    };
    capped(&add("full", 10_000), "full", 10_000.0, 0.0);
    capped(&add("full", 1), "full", 10_000.0, 1.0);
    // The queues share the cap.
    let shared = add("brim", 5_000);
    capped(&shared, "full", 5_000.0, 1.0);
    capped(&shared, "brim", 5_000.0, 0.0);
}

#[test]
fn a_breaker_without_workers_is_published() {
    let (_test, mut client) = TestDatabase::with_client();
    let insert = "INSERT INTO redrive.breakers (name, state, cause, kinds, delay_ms, probe_at) \
                  VALUES ('gateway', 'open', 'outage', '{order}', 1000, now())";
    client.sql(insert);
    says(&reading(&mut client), "breakers{__other__,open}", 1.0);
}

#[test]
fn a_reading_looks_up_a_thousand_queues_at_most() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(
        "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT 0, 'q' || n, 'order', '{}' FROM generate_series(1, 1001) n; \
             INSERT INTO redrive.groups (fingerprint, queue, kind, error_class, title) \
             SELECT gen_random_uuid(), 'q' || n, 'order', 'E', 't' FROM generate_series(1, 1001) n",
    );
    for queues in [
        "labels[1]) FROM redrive.metrics_queues()",
        "q) FROM redrive.queues_with_letters(1000) q",
    ] {
        let asked = format!("SELECT count(DISTINCT {queues}");
        assert_eq!(scalar(&mut client, &asked), 1000, "{queues}");
    }
}
