//! A reader of a missing or newer schema.

use redrive::metrics::{Reader, Source};
use redrive_tests::prelude::*;

use super::{ENQUEUED, success, with_own_totals};

#[test]
fn a_reader_without_a_schema_reports_it_and_recovers() {
    let test = TestDatabase::empty();
    let mut client = test.client();
    let mut reader = Reader::new("1.2.3");
    let reading = read(&mut reader, &mut client);
    says(&reading, "up", 0.0);
    says(&reading, "down{schema}", 1.0);
    says(&reading, "schema_version", 0.0);
    says(&reading, "schema_compatible", 0.0);
    reads(&reading, "redrive_exporter_build_info", &["1.2.3"], 1.0);
    assert!(reading.is_connected && !reading.is_ready);
    let (_, error) = &reading.failures[0];
    has(error, "read the schema's version");
    assert!(!success(&reading, Source::Queues));

    test.open().migrate().unwrap();
    let reading = read(&mut reader, &mut client);
    assert!(reading.failures.is_empty(), "{:?}", reading.failures);
    assert!(reading.is_ready);
    says(&reading, "schema_compatible", 1.0);
    says(&reading, "up", 1.0);
    assert!(success(&reading, Source::Queues));
    // Then one of another program.
    for columns in [
        "1 AS x",
        "'1' AS version, 'a' AS name, 'b' AS checksum, false AS breaking, 'c' AS library",
    ] {
        client.sql(&format!(
            "DROP SCHEMA redrive CASCADE; CREATE SCHEMA redrive; CREATE TABLE redrive.migrations AS SELECT {columns}"
        ));
        let reading = read(&mut reader, &mut client);
        for (cause, is_it) in [("schema", 1.0), ("unreachable", 0.0), ("privilege", 0.0)] {
            reads(&reading, "redrive_down", &[cause], is_it);
        }
        says(&reading, "schema_compatible", 0.0);
        assert!(reading.is_connected && !reading.is_ready);
    }
}

#[test]
fn a_newer_schema_is_read_unless_it_is_breaking() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES (9999, '9999_more', 'x', false)");
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    says(&reading, "schema_version", 9999.0);
    says(&reading, "schema_compatible", 1.0);

    client.sql("UPDATE redrive.migrations SET breaking = true WHERE version = 9999");
    let reading = read(&mut reader, &mut client);
    says(&reading, "schema_compatible", 0.0);
    says(&reading, "up", 1.0);
    assert!(!reading.is_ready);

    client.sql("DELETE FROM redrive.migrations WHERE version IN (1, 9999)");
    assert!(!read(&mut reader, &mut client).is_ready, "one is missing");
}

#[test]
fn unknown_metrics_of_a_newer_schema_are_ignored() {
    let test = TestDatabase::migrated();
    let mut client = with_own_totals(&test);
    client.sql("INSERT INTO own_totals VALUES ('redrive_unheard_of_total', '{}', '{1}'), \
             ('redrive_jobs_enqueued_total', '{a,b}', '{1}'), ('redrive_queue_overdue_leases', '{theirs}', '{7}'), \
             ('redrive_jobs_enqueued_total', '{a}', '{5}'), ('redrive_job_attempts_to_success', '{a}', '{1,2,3}')");
    let reading = read(&mut Reader::new("1"), &mut client);
    reads(&reading, ENQUEUED, &["a"], 5.0);
    says(&reading, "job_attempts_to_success{a}", 0.0);
    // Another source answers for the last one.
    for ignored in ["unheard_of_total", "queue_overdue_leases{theirs}"] {
        assert_eq!(series(&reading, ignored), None, "{ignored}");
    }
}
