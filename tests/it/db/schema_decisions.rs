//! Every table and function of the schema, with what was decided about it. A new one fails these
//! tests until its line is here.

mod functions;
mod tables;

use redrive_tests::TestDatabase;

use super::isolation::REFUSING;
use functions::FUNCTIONS;
use tables::TABLES;

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
