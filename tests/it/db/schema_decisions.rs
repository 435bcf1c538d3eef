//! Every table and function of the schema, with what was decided about it. A new one fails these
//! tests until its line is here.

mod functions;

use redrive_tests::TestDatabase;

use super::isolation::REFUSING;
use functions::FUNCTIONS;

/// Each table: how a publication of all tables identifies its rows, and how it is vacuumed.
///
/// Every table that loses or changes rows needs a primary key or the whole row; the parts of a
/// partitioned table decide for themselves. Tables that turn over quickly are vacuumed after a fixed
/// number of dead rows, because a share of a large table is too many.
const TABLES: &str = "
archived_letters     key   -
audit                key   -
breakers             key   fillfactor=50
captured_pieces      key   -
claim_marks          key   -
compactions          key   -
counter_keys         key   -
dead_letters         key   vacuum_scale_factor=0.02 vacuum_threshold=1000
delayed_marks        key   -
details              key   -
exclusive_tasks      key   -
failure_hours        key   -
group_rules          key   -
groups               key   fillfactor=70
jobs                 parts -
jobs_0               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_1               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_2               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_3               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_4               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_5               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_6               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_7               full  vacuum_scale_factor=0 vacuum_threshold=10000
jobs_delayed         key   vacuum_scale_factor=0 vacuum_threshold=10000
leases               key   vacuum_scale_factor=0 vacuum_threshold=1000
letter_deltas        full  vacuum_scale_factor=0 vacuum_threshold=1000
letter_versions      key   -
metric_deltas        parts -
metric_deltas_0      full  vacuum_scale_factor=0 vacuum_threshold=5000
metric_deltas_1      full  vacuum_scale_factor=0 vacuum_threshold=5000
metric_deltas_2      full  vacuum_scale_factor=0 vacuum_threshold=5000
metric_drift         key   -
metric_folded        key   -
metric_slots         key   -
metric_values        key   vacuum_scale_factor=0 vacuum_threshold=1000 fillfactor=70
migrations           key   -
policies             key   -
protections          key   -
pruned_regressions   key   -
queue_pauses         key   -
rate_buckets         key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
rate_limits          key   -
redactions           key   -
redrive_runs         key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
retention            key   -
ring_segments        key   -
run_chunks           key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
run_deltas           full  vacuum_scale_factor=0 vacuum_threshold=1000
run_letters          key   vacuum_scale_factor=0.1 fillfactor=55
schedule_ticks       key   -
schedules            key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=70
unique_keys          key   vacuum_scale_factor=0 vacuum_threshold=10000
workers              key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
";

const ASK_TABLES: &str = r#"
    SELECT rpad(c.relname, 20) || ' ' || rpad(CASE c.relreplident WHEN 'f' THEN 'full' WHEN 'd' THEN
               CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
                    THEN 'key' WHEN c.relkind = 'p' THEN 'parts' ELSE 'NONE' END ELSE 'OTHER' END, 5) || ' ' ||
           coalesce((SELECT string_agg(replace(o, 'autovacuum_', ''), ' ' ORDER BY o COLLATE "C") FROM unnest(c.reloptions) o
                     WHERE o ~ '^(autovacuum_vacuum_(scale|threshold)|fillfactor)'), '-')
    FROM pg_class c
    WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind IN ('r', 'p')
    ORDER BY c.relname COLLATE "C""#;

const ASK_FUNCTIONS: &str = r#"
    SELECT rpad(p.proname, 24) || ' ' || CASE WHEN p.prosecdef THEN 'definer' ELSE 'invoker' END || ' ' ||
           rpad(CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END, 9) || ' ' ||
           rpad(CASE WHEN p.prosqlbody IS NOT NULL THEN 'parsed'
                WHEN 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig) THEN 'pinned'
                ELSE 'OPEN' END, 6) || ' ' ||
           rpad(CASE WHEN p.prosrc LIKE '%redrive.require_read_committed(%' THEN 'committed'
                WHEN p.prosrc ~ 'LOCK TABLE|TRUNCATE' THEN 'table'
                WHEN p.prosrc ~ 'FOR (NO KEY )?(UPDATE|SHARE)' THEN 'rows'
                ELSE 'any' END, 9) || ' ' ||
           coalesce((SELECT string_agg(s, ' ' ORDER BY s COLLATE "C") FROM unnest(p.proconfig) s WHERE s NOT LIKE 'search_path=%'), '-')
    FROM pg_proc p
    WHERE p.pronamespace = 'redrive'::regnamespace
    ORDER BY p.proname COLLATE "C", pg_get_function_identity_arguments(p.oid) COLLATE "C""#;

/// Fails with the lines that differ.
#[track_caller]
fn compare(test: &TestDatabase, asked: &str, decided: &str) {
    let rows = test.client().query(asked, &[]).unwrap();
    let line = |row: &postgres::Row| row.get::<_, &str>(0).trim_end().to_owned();
    let there: Vec<String> = rows.iter().map(line).collect();
    let decided: Vec<&str> = decided.trim().lines().collect();
    let is_new = |line: &&String| !decided.contains(&line.as_str());
    let undecided: Vec<&String> = there.iter().filter(is_new).collect();
    let gone: Vec<&&str> = decided
        .iter()
        .filter(|line| !there.iter().any(|there| there == *line))
        .collect();
    assert!(
        undecided.is_empty() && gone.is_empty(),
        "not decided: {undecided:#?}\ndecided, but not there: {gone:#?}"
    );
    assert_eq!(there, decided, "the order");
}

#[test]
fn every_table_has_a_decided_replica_identity_and_vacuum() {
    compare(&TestDatabase::migrated(), ASK_TABLES, TABLES);
}

#[test]
fn every_function_has_decided_rights_and_a_fixed_search_path() {
    for line in FUNCTIONS.lines() {
        assert!(!line.contains("OPEN"), "{line}");
    }
    compare(&TestDatabase::migrated(), ASK_FUNCTIONS, FUNCTIONS);
}

#[test]
fn what_reads_a_table_that_it_locked_needs_read_committed() {
    let names = |level: &str| -> Vec<&str> {
        let columns = FUNCTIONS
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let decided = columns.filter(|columns| columns.get(4) == Some(&level));
        decided.map(|columns| columns[0]).collect()
    };
    let mut committed = names("committed");
    let test = TestDatabase::migrated();
    let mut client = test.client();
    for inner in names("table") {
        let callers = "SELECT array_agg(p.proname::text) FROM pg_proc p
             WHERE p.pronamespace = 'redrive'::regnamespace AND p.prosrc ~ ('redrive\\.' || $1 || '\\(')";
        let callers: Vec<String> = client.query_one(callers, &[&inner]).unwrap().get(0);
        let mut callers: Vec<&str> = callers.iter().map(String::as_str).collect();
        // Its only caller is `turn_ring`.
        if callers == ["clear_segment"] {
            callers = vec!["turn_ring"];
        }
        assert!(
            callers.iter().all(|caller| committed.contains(caller)),
            "{inner}: {callers:?}"
        );
    }
    let mut refusing = REFUSING.map(|call| {
        let name = call.trim_start_matches("SELECT redrive.");
        name.split('(').next().unwrap()
    });
    refusing.sort_unstable();
    committed.sort_unstable();
    assert_eq!(committed, refusing, "`isolation` tests each of them");
}
