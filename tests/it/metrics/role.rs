//! The role of an exporter: it reads every metric, no payload, and writes nothing.

use redrive::metrics::{Reader, Source};
use redrive_tests::prelude::*;

/// The role as an administrator creates it.
const DEPLOYED: &str = include_str!("../../../crates/redrive-exporter/deploy/role.sql");

/// A database, its owner, and the role of the exporter with the settings of its deployment.
fn granted() -> (TestDatabase, Client, Role) {
    let (test, mut owner) = TestDatabase::with_client();
    let role = test.role_of("metrics", &["exporter"]);
    let lines = DEPLOYED.lines();
    for setting in lines.filter(|line| line.starts_with("ALTER ROLE")) {
        owner.sql(&setting.replace("redrive_exporter", role.name()));
    }
    (test, owner, role)
}

#[test]
fn the_exporter_role_folds_what_no_worker_folds_and_reads_the_same_without_that_right() {
    const ROWS: i64 = 100_000;
    let (_test, mut owner, role) = granted();
    owner.sql(&format!(
        "INSERT INTO redrive.metric_deltas (queue, keys, counts)
             SELECT 'orders', '{{enqueued}}', '{{1}}' FROM generate_series(1, {ROWS})"
    ));
    for (right, is_folded) in [("REVOKE % FROM", false), ("GRANT % TO", true)] {
        let right = right.replace('%', "EXECUTE ON FUNCTION redrive.fold_metrics");
        owner.sql(&format!("{right} {}", role.name()));
        let reading = read(&mut Reader::new("1"), &mut role.client());
        assert!(reading.failures.is_empty(), "{:?}", reading.failures);
        says(&reading, "jobs_enqueued_total{orders}", 100_000.0);
        assert_eq!(owner.count("metric_deltas") < ROWS, is_folded, "{right}");
    }
}

#[test]
fn the_exporter_role_sees_the_transactions_of_other_roles() {
    let (test, _owner, role) = granted();
    let mut other = test.client();
    let mut held = snapshot(&mut other);
    held.sql("SELECT txid_current()");
    for _ in 0..3 {
        test.sql("SELECT txid_current()");
    }
    let reading = read(&mut Reader::new("1"), &mut role.client());
    let age = |of: &str| series(&reading, &format!("pg_oldest_horizon_age_{of}"));
    let idle = age("transactions{idle_in_transaction}");
    assert!(idle >= Some(3.0), "{idle:?}");
    for holder in ["prepared", "slot", "standby_feedback"] {
        let age = age(&format!("transactions{{{holder}}}"));
        assert!(age.is_some_and(|age| age < 1.0), "{holder}: {age:?}");
    }
    for holder in ["backend", "idle_in_transaction", "prepared"] {
        assert!(age(&format!("seconds{{{holder}}}")).is_some(), "{holder}");
    }
    let oldest = series(&reading, "pg_oldest_transaction_age_seconds");
    assert!(oldest.unwrap() > 0.0);
}

#[test]
fn the_exporter_role_cannot_read_payloads_or_write() {
    let (_test, mut owner, role) = granted();
    let open = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace
                AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege($1, c.oid, 'USAGE, SELECT, UPDATE')
                         WHEN c.relkind IN ('r', 'p', 'v')
                         THEN has_table_privilege($1, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
                             OR has_any_column_privilege($1, c.oid, 'SELECT, INSERT, UPDATE') END ORDER BY 1";
    let open: Vec<String> = owner.column(open, &[&role.name()]);
    assert_eq!(open, ["migrations", "professions"]);
    let mut client = role.client();
    client.refuses("TABLE redrive.jobs", &[], "42501");
    client.refuses("DELETE FROM redrive.migrations", &[], "42501");
    // Of the functions that run with the rights of the owner, it has those that count.
    let granted = "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace \
                   AND p.prosecdef AND has_function_privilege($1, p.oid, 'EXECUTE') ORDER BY 1";
    let granted: Vec<String> = owner.column(granted, &[&role.name()]);
    let needed = "fold_metrics metric_totals metrics_letters metrics_operations metrics_queues metrics_tables";
    assert_eq!(granted.join(" "), needed);
}

#[test]
fn a_role_without_grants_reports_the_missing_privilege() {
    let test = TestDatabase::migrated();
    let role = test.role("metrics");
    let reading = read(&mut Reader::new("1"), &mut role.client());
    says(&reading, "up", 0.0);
    says(&reading, "down{privilege}", 1.0);
    says(&reading, "down{unreachable}", 0.0);
    says(&reading, "schema_compatible", 0.0);
    assert!(reading.is_connected && !reading.is_ready);
    let (source, error) = &reading.failures[0];
    assert_eq!(*source, None);
    has(error, "read the schema's version");
}

#[test]
fn a_role_that_cannot_see_other_sessions_reports_no_zeros_for_them() {
    let (_test, mut owner, role) = granted();
    owner.sql(&format!("REVOKE pg_monitor FROM {}", role.name()));
    let reading = read(&mut Reader::new("1"), &mut role.client());
    says(&reading, "up", 1.0);
    for source in Source::DATABASE {
        let is_read = f64::from(u8::from(source != Source::Server));
        let success = format!("collector_success{{{}}}", source.as_str());
        says(&reading, &success, is_read);
    }
    assert_eq!(series(&reading, "pg_lock_waiters"), None);
    let (source, error) = &reading.failures[0];
    assert_eq!(*source, Some(Source::Server));
    let missing = format!("GRANT pg_monitor TO {}", role.name());
    has(format!("{error:#}"), missing);
}

#[test]
fn grant_lists_the_grants_it_may_not_make() {
    let test = TestDatabase::empty();
    let (role, owner) = (test.role("metrics"), test.role("owner"));
    test.sql(&format!(
        "CREATE SCHEMA redrive AUTHORIZATION {}",
        owner.name()
    ));
    owner.open().migrate().expect("migrate");
    let mut owner = owner.client();
    let grant = "SELECT redrive.grant_role($1, 'exporter')";
    let left: String = owner.ask(grant, &[&role.name()]);
    let expected = format!("as a superuser: GRANT pg_monitor TO {}", role.name());
    assert_eq!(left, expected);
    owner.refuses(grant, &[&"no_such_role"], "42704");
}
