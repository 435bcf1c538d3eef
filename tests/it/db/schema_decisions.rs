//! Every table and function of the schema, with what was decided about it. A new one fails these
//! tests until its line is here.

use redrive_tests::TestDatabase;

/// Each table: how a publication of all tables identifies its rows, and how it is vacuumed.
///
/// Every table that loses or changes rows needs a primary key or the whole row; the parts of a
/// partitioned table decide for themselves. Tables that turn over quickly are vacuumed after a fixed
/// number of dead rows, because a share of a large table is too many.
const TABLES: &str = "
archived_letters     key   -
audit                key   -
breakers             key   fillfactor=50
counter_keys         key   -
dead_letters         key   vacuum_scale_factor=0.02 vacuum_threshold=1000
details              key   -
exclusive_tasks      key   -
failure_hours        key   -
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
metric_ring          key   -
metric_slots         key   -
metric_values        key   vacuum_scale_factor=0 vacuum_threshold=1000 fillfactor=70
migrations           key   -
policies             key   -
pruned_regressions   key   -
redactions           key   -
redrive_runs         key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
retention            key   -
ring                 key   -
ring_segments        key   -
run_chunks           key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
run_deltas           full  vacuum_scale_factor=0 vacuum_threshold=1000
run_letters          key   vacuum_scale_factor=0.1 fillfactor=55
unique_keys          key   vacuum_scale_factor=0 vacuum_threshold=10000
workers              key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
";

/// Each function: whose rights it has, what it may do, how its names are resolved, and its settings.
///
/// `definer` functions may truncate or count what their callers may not read. Names are `pinned` to
/// `pg_catalog, pg_temp` or were `parsed` when the function was created, so that no role can put its
/// own functions in between. Nothing else is allowed.
const FUNCTIONS: &str = "
add_attempt              invoker immutable parsed -
add_counts               invoker immutable parsed -
add_event                invoker immutable parsed -
add_redaction            invoker volatile  pinned -
apply_retention          invoker volatile  pinned enable_seqscan=on
archive_json             invoker stable    pinned -
assign_group             invoker volatile  pinned -
audit_counters           definer volatile  pinned enable_seqscan=on jit=off
capture                  invoker volatile  pinned -
capture_letters          invoker volatile  pinned -
change_run               invoker volatile  pinned -
check_breaker_name       invoker immutable pinned -
check_name               invoker immutable pinned -
check_redaction          invoker volatile  pinned -
check_redrive            invoker immutable pinned -
clear_segment            invoker volatile  pinned -
clip                     invoker immutable parsed -
close_breaker            invoker volatile  pinned -
complete_letter          invoker volatile  pinned -
count_added_letters      invoker volatile  pinned -
count_changed_letters    invoker volatile  pinned -
count_letters            invoker stable    pinned jit=off
count_own_run            invoker volatile  pinned -
count_removed_letters    invoker volatile  pinned -
create_run               invoker volatile  pinned -
cut_history              invoker immutable pinned -
delete_versions          invoker volatile  pinned -
detail_of                invoker volatile  pinned -
discard                  invoker volatile  pinned -
discard_letters          invoker volatile  pinned -
drive_chunk              invoker volatile  pinned -
drive_run                invoker volatile  pinned -
due_letters              invoker volatile  pinned -
edit_letter              invoker volatile  pinned -
edit_letters             invoker volatile  pinned -
ends_with_jobs           invoker volatile  pinned -
enqueue                  invoker volatile  pinned -
expand_record            invoker immutable parsed -
filter_group_ids         invoker stable    pinned -
filter_letters           invoker stable    pinned -
filter_values            invoker immutable pinned -
fingerprint              invoker immutable parsed -
fold_letters             invoker volatile  pinned enable_seqscan=on
fold_metrics             definer volatile  pinned enable_seqscan=on jit=off lock_timeout=50ms
fold_runs                invoker volatile  pinned enable_seqscan=off
full_history             invoker stable    pinned -
grant_metric_slots       invoker volatile  pinned -
grant_metrics            invoker volatile  pinned -
grant_role               invoker volatile  pinned -
group_of                 invoker volatile  pinned -
has_refused_death        invoker volatile  pinned -
history_before           invoker immutable pinned -
is_drained               invoker volatile  pinned enable_bitmapscan=off enable_seqscan=off jit=off
is_gated                 invoker stable    pinned -
is_hour_allowed          invoker immutable parsed -
is_same_failure          invoker stable    parsed -
is_seen_drained          invoker volatile  pinned -
json_of                  invoker immutable pinned -
list_letters             invoker stable    pinned enable_bitmapscan=off jit=off
lock_for_edit            invoker volatile  pinned -
lock_letters             invoker volatile  pinned enable_bitmapscan=off enable_seqscan=off jit=off
mask                     invoker immutable pinned -
metric_bucket            invoker immutable parsed -
metric_totals            definer volatile  pinned enable_seqscan=on jit=off synchronize_seqscans=off
metrics_bloat            definer stable    pinned jit=off
metrics_cap              invoker immutable parsed -
metrics_job_queues       invoker stable    pinned enable_bitmapscan=off enable_seqscan=off jit=off
metrics_letter_queues    invoker stable    pinned enable_bitmapscan=off enable_seqscan=off jit=off
metrics_letters          definer stable    pinned enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_operations       definer stable    pinned enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_queues           definer stable    pinned enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_server           invoker stable    pinned jit=off
metrics_tables           definer stable    pinned jit=off
move_stragglers          invoker volatile  pinned -
new_metric_slots         invoker stable    pinned -
note_group               invoker volatile  pinned -
open_breaker             invoker volatile  pinned -
page_editable            invoker stable    pinned -
page_letters             invoker stable    pinned -
place_metric_tallies     invoker stable    pinned -
policy_wait              invoker immutable parsed -
preview_redrive          invoker stable    pinned -
protect_audit            invoker volatile  pinned -
prune_groups             invoker volatile  pinned lock_timeout=50ms
prune_letters            invoker volatile  pinned enable_seqscan=on
queues_with_letters      invoker stable    pinned enable_seqscan=off
queues_with_open_breaker invoker stable    pinned -
record_act               invoker volatile  pinned -
record_run_outcomes      invoker volatile  pinned -
redact                   invoker stable    pinned -
redact_bytes             invoker immutable pinned -
redact_text              invoker immutable pinned -
redrive                  invoker volatile  pinned -
redrive_letters          invoker volatile  pinned -
refuse_death             invoker volatile  pinned -
refused_letters          invoker stable    pinned enable_hashjoin=off enable_mergejoin=off enable_seqscan=off
remove_letters           invoker volatile  pinned -
remove_policy            invoker volatile  pinned -
remove_redaction         invoker volatile  pinned -
remove_retention         invoker volatile  pinned -
reopen                   invoker volatile  pinned -
require_read_committed   invoker volatile  pinned -
restore_letter           invoker volatile  pinned -
retention_by_queue       invoker stable    pinned -
retention_due            invoker stable    pinned -
run_policies             invoker volatile  pinned enable_seqscan=on
save_regressions         invoker volatile  pinned -
segment_bytes            invoker volatile  pinned -
segment_holders          invoker volatile  pinned -
send_back                invoker volatile  pinned enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off work_mem=32MB
send_members             invoker volatile  pinned -
set_group_state          invoker volatile  pinned -
set_policy               invoker volatile  pinned -
set_policy_mode          invoker volatile  pinned -
set_retention            invoker volatile  pinned -
take_jobs                invoker volatile  pinned -
take_keys                invoker volatile  pinned -
take_run                 invoker volatile  pinned -
tally_added_letters      invoker volatile  pinned -
tally_changed_letters    invoker volatile  pinned -
tally_removed_letters    invoker volatile  pinned -
truncate_segment         invoker volatile  pinned lock_timeout=50ms
turn_ring                definer volatile  pinned enable_seqscan=on jit=off
unserved_letters         invoker stable    pinned -
vacuum_threshold         invoker stable    pinned -
wake                     invoker volatile  pinned -
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
           coalesce((SELECT string_agg(s, ' ' ORDER BY s COLLATE "C") FROM unnest(p.proconfig) s WHERE s NOT LIKE 'search_path=%'), '-')
    FROM pg_proc p
    WHERE p.pronamespace = 'redrive'::regnamespace
    ORDER BY p.proname COLLATE "C", pg_get_function_identity_arguments(p.oid) COLLATE "C""#;

/// Fails with the lines that differ.
#[track_caller]
fn compare(test: &TestDatabase, asked: &str, decided: &str) {
    let rows = test.client().query(asked, &[]).unwrap();
    let there: Vec<String> = rows
        .iter()
        .map(|row| row.get::<_, &str>(0).trim_end().to_owned())
        .collect();
    let decided: Vec<&str> = decided.trim().lines().collect();
    let undecided: Vec<&String> = there
        .iter()
        .filter(|line| !decided.contains(&line.as_str()))
        .collect();
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
fn only_the_owner_may_truncate() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let role = test.name().replace("redrive_test_", "every_");
    let professions = ["enqueuer", "worker", "operator", "reader", "exporter"];
    client
        .batch_execute(&format!("CREATE ROLE {role} NOLOGIN"))
        .unwrap();
    for profession in professions {
        client
            .execute("SELECT redrive.grant_role($1, $2)", &[&role, &profession])
            .unwrap();
    }
    let asked = "SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class c
                 CROSS JOIN LATERAL aclexplode(c.relacl) a
                 WHERE c.relnamespace = 'redrive'::regnamespace AND a.grantee <> c.relowner
                     AND a.privilege_type IN ('TRUNCATE', 'TRIGGER', 'REFERENCES')";
    let open: Vec<String> = client.query_one(asked, &[]).unwrap().get(0);
    client
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .unwrap();
    assert_eq!(open, [""; 0]);
}
