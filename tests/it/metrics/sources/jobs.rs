//! Live jobs, breakers and segments.

use super::reading;
use redrive::metrics::Reading;
use redrive_tests::{TestDatabase, reads};

use super::{LIVE, about};

#[test]
fn live_jobs_are_published_by_queue_and_state_with_their_ages() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute(LIVE).unwrap();
    let reading = reading(&mut client);
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
    // The second one has the highest priority, so it is the first in the order of claims.
    about(
        &reading,
        "redrive_queue_oldest_ready_age_seconds",
        &["orders"],
        7200.0,
    );
    reads(
        &reading,
        "redrive_queue_oldest_ready_age_seconds",
        &["mail"],
        0.0,
    );
    about(
        &reading,
        "redrive_queue_oldest_leased_age_seconds",
        &["orders"],
        100.0,
    );
    reads(
        &reading,
        "redrive_queue_oldest_leased_age_seconds",
        &["mail"],
        0.0,
    );
    reads(&reading, "redrive_queue_overdue_leases", &["orders"], 3.0);
}

#[test]
fn counts_over_the_cap_are_marked() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut add = |queue: &str, jobs: i32| {
        let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                     SELECT n % 4, $1::text, 'order', '{}' FROM generate_series(1, $2) n";
        client.execute(added, &[&queue, &jobs]).unwrap();
        reading(&mut client)
    };
    let capped = |reading: &Reading, queue: &str, jobs: f64, is_capped: f64| {
        reads(reading, "redrive_queue_jobs", &[queue, "ready"], jobs);
        reads(
            reading,
            "redrive_queue_jobs_capped",
            &[queue, "ready"],
            is_capped,
        );
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
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.breakers (name, state, cause, kinds, delay_ms, probe_at) \
             VALUES ('gateway', 'open', 'outage', '{order}', 1000, now())",
        )
        .unwrap();
    reads(
        &reading(&mut client),
        "redrive_breakers",
        &["__other__", "open"],
        1.0,
    );
}
