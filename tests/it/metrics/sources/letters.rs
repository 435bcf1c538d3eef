//! Letters, groups, runs and operations.

use redrive_tests::prelude::*;

use super::{LIVE, about, reading, reading_of};

#[test]
fn letters_are_published_by_age_with_their_retention() {
    let reading = reading_of(
        "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at, state) \
             SELECT 'orders', 'order', 'rejected', 'E', 'e', '{}', now(), now() - h * interval '1 hour', s \
             FROM (VALUES (0, 'open'), (2, 'open'), (30, 'open'), (200, 'open'), (300, 'recovered')) v (h, s); \
             INSERT INTO redrive.retention (queue, state, keep, action) VALUES \
                 (NULL, 'open', '30 days', 'archive'), ('orders', 'open', '10 days', 'archive'), \
                 ('orders', 'recovered', '1 day', 'delete'); \
             INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at) \
             VALUES (gen_random_uuid(), 'mail', 'h', 1, '1', 1, now())",
    );
    let oldest = "dlq_oldest_age_seconds{orders,operator}";
    about(&reading, oldest, 200.0 * 3600.0);
    says(&reading, "dlq_oldest_age_seconds{mail,operator}", 0.0);
    says(&reading, "dlq_oldest_age_seconds{orders,retry}", 0.0);
    says(&reading, "dlq_retention_seconds{orders}", 864_000.0);
    says(&reading, "dlq_retention_seconds{mail}", 2_592_000.0);
}

#[test]
fn letters_of_ignored_groups_do_not_count_as_old() {
    let (test, mut client) = TestDatabase::with_client();
    // The hours of the oldest letter.
    let age = || {
        let reading = reading(&mut test.client());
        let hours = series(&reading, "dlq_oldest_age_seconds{orders,operator}").unwrap() / 3600.0;
        format!("{hours:.0}")
    };
    client.sql("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at) \
             SELECT 'orders', 'order', 'rejected', c, 'e', '{}', now(), now() - h * interval '1 hour' \
             FROM (VALUES (50, 'Known'), (20, 'Known'), (10, 'New'), (0, 'New')) v (h, c)");
    assert_eq!(age(), "50");
    let mut set = |sql: &str| client.sql(sql);
    set("UPDATE redrive.groups SET state = 'ignored' WHERE error_class = 'Known'");
    assert_eq!(age(), "10");
    // More ignored letters than a reading looks at.
    set("ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER; \
         INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at, group_id) \
         SELECT 'orders', 'order', 'rejected', 'Known', 'e', '{}', now(), now() - interval '15 hours', g.id \
         FROM redrive.groups g, generate_series(1, 3000) WHERE g.error_class = 'Known'");
    assert_eq!(age(), "10");
    set("DELETE FROM redrive.dead_letters WHERE error_class = 'New'");
    assert_eq!(age(), "0");
}

#[test]
fn letters_that_a_policy_or_a_consumer_will_retry_do_not_wait_for_an_operator() {
    let (test, mut client) = TestDatabase::with_client();
    let hours = || {
        let reading = reading(&mut test.client());
        ["operator", "retry"].map(|waits| {
            let age = format!("dlq_oldest_age_seconds{{orders,{waits}}}");
            format!("{:.0}", series(&reading, &age).unwrap() / 3600.0)
        })
    };
    let mut set = |sql: &str| client.sql(sql);
    set(
        "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at, generation) \
         SELECT 'orders', k, 'rejected', 'E', 'e', '{}', now(), now() - h * interval '1 hour', g \
         FROM (VALUES (50, 'order', 0), (40, 'order', 9), (30, 'bill', 0)) v (h, k, g)",
    );
    assert_eq!(hours(), ["50", "0"]);
    set("SELECT redrive.set_policy('p', '{\"kind\": \"order\"}', '6 hours', generations => 9)");
    assert_eq!(hours(), ["40", "50"], "it skips the second one");
    set("SELECT redrive.set_policy('q', '{\"queue\": \"orders\"}', '1 day', generations => 99)");
    assert_eq!(hours(), ["0", "50"]);
    set(
        "SELECT redrive.pause_schedule('p'), redrive.set_policy('q', '{}', '1 day', counts_only => true)",
    );
    assert_eq!(hours(), ["50", "0"]);
    set(
        "UPDATE redrive.dlq_events SET status = 'PENDING', retry_after = now() + interval '1 hour' WHERE event_type = 'order'",
    );
    assert_eq!(hours(), ["30", "50"], "a consumer put them off");
    set("UPDATE redrive.dlq_events SET retry_after = now() WHERE status = 'PENDING'");
    assert_eq!(hours(), ["50", "0"], "they are due, and nobody takes them");
    set("UPDATE redrive.dlq_events SET status = 'PROCESSING' WHERE status = 'PENDING'");
    assert_eq!(hours(), ["30", "50"]);
}

#[test]
fn operations_are_published() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(LIVE);
    client.sql("INSERT INTO redrive.breakers (name, state, cause, kinds, delay_ms, probe_at) VALUES \
                 ('queue:mail', 'open', 'operator', '{}', 1000, 'infinity'), \
                 ('gateway', 'half_open', 'outage', '{order}', 1000, now()), \
                 ('unnamed', 'open', 'operator', '{}', 1000, 'infinity'), \
                 ('queue:orders', 'closed', 'outage', '{}', 1000, NULL); \
             INSERT INTO redrive.queue_pauses (queue, paused_at, ends_at) VALUES \
                 ('mail', now() - interval '1 hour', 'infinity'), ('orders', now() - interval '2 hours', now() + interval '1 hour'), \
                 ('over', now() - interval '2 hours', now() - interval '1 hour'); \
             INSERT INTO redrive.redrive_runs (state, filter, total, cursor, sent, skipped, recovered, died_alike, halted_because, progress_at) VALUES \
                 ('running', '{}', 100, 40, 38, 2, 10, 3, NULL, now() - interval '20 minutes'), \
                 ('halted', '{}', 10, 4, 4, 0, 0, 4, 'b', '2000-01-01'), ('unapproved', '{}', 7, 0, 0, 0, 0, 0, NULL, '2000-01-01'), \
                 ('finished', '{}', 5, 5, 5, 0, 5, 0, NULL, '2000-01-01'), ('running', '{}', 5, 5, 5, 0, 5, 0, NULL, '2000-01-01'), \
                 ('running', '{}', 9, 2, 2, 0, 2, 0, NULL, now()); \
             INSERT INTO redrive.run_deltas (run_id, tried, sent, skipped, recovered, died_alike, died_differently) VALUES \
                 (1, 5, 4, 1, 1, 0, 2), (4, 0, -1, 1, 0, 0, 0)");
    let reading = reading(&mut client);
    for (name, labels, value) in [
        ("redrive_workers", &["orders", "busy"][..], 1.0),
        ("redrive_workers", &["orders", "waiting"], 1.0),
        ("redrive_workers", &["orders", "expired"], 1.0),
        ("redrive_workers", &["mail", "busy"], 0.0),
        ("redrive_worker_slots", &["orders"], 6.0),
        ("redrive_worker_slots_busy", &["orders"], 4.0),
        ("redrive_breakers", &["mail", "open"], 1.0),
        ("redrive_breakers", &["orders", "half_open"], 1.0),
        ("redrive_breakers", &["orders", "open"], 0.0),
        ("redrive_queue_paused", &["mail", "none"], 1.0),
        ("redrive_queue_paused", &["mail", "planned"], 0.0),
        ("redrive_queue_paused", &["orders", "none"], 0.0),
        ("redrive_queue_paused", &["orders", "planned"], 1.0),
        ("redrive_runs", &["unapproved"], 1.0),
        ("redrive_runs", &["running"], 3.0),
        ("redrive_runs", &["halted"], 1.0),
        ("redrive_runs", &["paused"], 0.0),
        ("redrive_run_letters_waiting", &[], 68.0),
        ("redrive_run_letters_unsettled", &[], 25.0),
        ("redrive_run_outcomes_total", &["recovered"], 23.0),
        ("redrive_run_outcomes_total", &["died_alike"], 7.0),
        ("redrive_run_outcomes_total", &["died_differently"], 2.0),
    ] {
        reads(&reading, name, labels, value);
    }
    about(&reading, "run_idle_seconds", 1200.0);
    about(&reading, "queue_paused_seconds{mail}", 3600.0);
    about(&reading, "queue_paused_seconds{orders}", 7200.0);
    let over = series(&reading, "queue_paused{over,planned}");
    assert_ne!(over, Some(1.0), "its pause has ended");
    // A queue needs the gateway, and no handler has named the other.
    for without_worker in ["breakers{__other__,half_open}", "breakers{__other__,open}"] {
        assert_ne!(series(&reading, without_worker), Some(1.0));
    }
}

#[test]
fn a_slot_that_is_shared_is_busy_for_every_queue_that_shares_it() {
    // A pool of two queues, one of which has none of the jobs; one with more jobs than slots; and batches of two.
    let reading = reading_of(
        "CREATE TEMP TABLE rows AS SELECT gen_random_uuid() AS worker_id, r.* FROM (VALUES \
             ('full', 4, 4, 1, 'a'), ('none', 4, 0, 1, 'a'), ('some', 6, 3, 1, 'b'), ('more', 6, 5, 1, 'b'), \
             ('batches', 5, 3, 2, 'c')) r (queue, slots, jobs, slot_jobs, pool); \
         INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, slot_jobs, pool, expires_at) \
         SELECT r.worker_id, r.queue, 'h', 1, '1', r.slots, r.slot_jobs, md5(r.pool)::uuid, now() + interval '1 hour' FROM rows r; \
         INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
         SELECT gen_random_uuid(), r.worker_id, r.queue, ARRAY[n], '{order}', ARRAY['{}'::json], ARRAY[now()] \
         FROM rows r, generate_series(1, r.jobs) n",
    );
    for (queue, slots, busy) in [
        ("full", 4.0, 4.0),
        ("none", 4.0, 4.0),
        ("some", 6.0, 6.0),
        ("more", 6.0, 6.0),
        ("batches", 5.0, 2.0),
    ] {
        reads(&reading, "redrive_workers", &[queue, "busy"], 1.0);
        reads(&reading, "redrive_worker_slots", &[queue], slots);
        reads(&reading, "redrive_worker_slots_busy", &[queue], busy);
    }
}

#[test]
fn regressions_of_deleted_groups_still_count() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.groups (fingerprint, queue, kind, error_class, title, last_seen, resolved_at) \
             SELECT gen_random_uuid(), 'orders', 'order', 'E', n, now() - interval '3 years', now() - interval '2 years' \
             FROM generate_series(1, 6) n; \
             UPDATE redrive.groups SET last_seen = now() - interval '1 year'");
    for _ in 0..2 {
        let reading = reading(&mut client);
        says(&reading, "group_regressions_total{orders}", 6.0);
        client.sql("SELECT redrive.prune_groups('90 days')");
    }
    assert_eq!(client.count("groups"), 0);
}
