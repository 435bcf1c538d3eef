//! Every table and function of the schema, with what was decided about it. A new one fails these
//! tests until its line is here.

mod tables;

use redrive_tests::TestDatabase;

use super::isolation::REFUSING;
use tables::TABLES;

/// Each function: whose rights it has, what it may do, how its names are resolved, its isolation level, and
/// its settings.
///
/// `definer` functions may truncate, count or store what their callers may not read. Names are `pinned` to
/// `pg_catalog, pg_temp` or were `parsed` when the function was created, so that no role can put its
/// own functions in between. Nothing else is allowed.
///
/// A function that locks a table and then reads it refuses every level but READ COMMITTED
/// (`committed`), where the lock is older than the snapshot; one that locks a `table` is called only by
/// such functions. One that locks `rows` works at `any` level: the server reports a row that changed in
/// between as a serialization failure.
const FUNCTIONS: &str = "
add_attempt              invoker immutable parsed any       -
add_counts               invoker immutable parsed any       -
add_event                invoker immutable parsed any       -
add_group_rule           invoker volatile  pinned any       -
add_redaction            invoker volatile  pinned any       -
add_to_events            definer volatile  pinned any       -
age_jobs                 invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
apply_retention          invoker volatile  pinned rows      enable_seqscan=on
archive_event            definer volatile  pinned any       -
archive_json             invoker stable    pinned any       -
assign_group             invoker volatile  pinned any       -
audit_counters           definer volatile  pinned committed enable_seqscan=on jit=off
audit_removed_events     definer volatile  pinned any       -
blocked_letters          invoker stable    pinned any       -
bury_unhandled           invoker volatile  pinned any       -
bury_waiting             invoker volatile  pinned any       -
capture                  definer volatile  pinned any       -
capture_letters          definer volatile  pinned rows      -
capture_many             definer volatile  pinned any       -
captured_headers         invoker immutable parsed any       -
change_event             definer volatile  pinned any       -
change_jobs              invoker volatile  pinned any       -
change_run               invoker volatile  pinned rows      -
check_allowed            invoker stable    pinned any       -
check_breaker_name       invoker immutable pinned any       -
check_name               invoker immutable pinned any       -
check_redaction          invoker volatile  pinned any       -
check_redrive            invoker immutable pinned any       -
check_size               invoker stable    pinned any       -
claim_event              invoker volatile  pinned rows      -
clear_segment            invoker volatile  pinned any       -
clip                     invoker immutable parsed any       -
close_breaker            invoker volatile  pinned any       -
compact                  definer volatile  pinned committed enable_seqscan=on jit=off
complete_letter          invoker volatile  pinned any       -
count_added_letters      invoker volatile  pinned any       -
count_archived           invoker stable    pinned any       -
count_changed_letters    invoker volatile  pinned any       -
count_jobs               invoker stable    pinned any       jit=off
count_letters            invoker stable    pinned any       jit=off
count_letters_by         invoker stable    pinned any       jit=off
count_own_run            invoker volatile  pinned any       -
count_removed_letters    invoker volatile  pinned any       -
count_restored           invoker volatile  pinned any       -
create_run               invoker volatile  pinned any       -
cut_history              invoker immutable pinned any       -
delete_archived          definer volatile  pinned rows      -
delete_event             definer volatile  pinned any       -
delete_pieces            definer volatile  pinned any       -
delete_version_pieces    definer volatile  pinned any       -
delete_versions          invoker volatile  pinned any       -
detail_of                invoker volatile  pinned any       -
discard                  invoker volatile  pinned any       -
discard_letters          invoker volatile  pinned any       -
drive_chunk              invoker volatile  pinned rows      -
drive_run                invoker volatile  pinned rows      -
drop_redacted_pieces     invoker volatile  pinned any       -
due_letters              invoker volatile  pinned rows      -
edit_letter              invoker volatile  pinned any       -
edit_letters             invoker volatile  pinned rows      -
ends_with_jobs           invoker volatile  pinned any       -
enqueue                  invoker volatile  pinned any       -
entry_segment            invoker stable    parsed any       -
erasable                 definer stable    pinned any       -
erase                    invoker volatile  pinned any       -
erase_batch              definer volatile  pinned rows      -
erase_from_audit         invoker volatile  pinned any       -
event_lease              invoker immutable parsed any       -
expand_record            invoker immutable parsed any       -
filter_archive           invoker stable    pinned any       -
filter_erased_jobs       invoker immutable pinned any       -
filter_erasure           invoker immutable pinned any       -
filter_group_ids         invoker stable    pinned any       -
filter_jobs              invoker stable    pinned any       -
filter_letters           invoker stable    pinned any       -
filter_values            invoker immutable pinned any       -
fingerprint              invoker immutable parsed any       -
fold_letters             invoker volatile  pinned committed enable_seqscan=on
fold_metrics             definer volatile  pinned committed enable_seqscan=on jit=off lock_timeout=50ms
fold_runs                invoker volatile  pinned rows      enable_seqscan=off jit=off
free_slots               invoker volatile  pinned any       -
full_history             invoker stable    pinned any       -
grant_metric_slots       invoker volatile  pinned any       -
grant_metrics            invoker volatile  pinned any       -
grant_role               invoker volatile  pinned any       -
group_of                 invoker volatile  pinned any       -
has_refused_death        invoker volatile  pinned any       -
headers_with_long        invoker immutable parsed any       -
held_queues              invoker stable    pinned any       -
history_before           invoker immutable pinned any       -
import_letters           invoker volatile  pinned any       -
imported                 invoker volatile  pinned any       -
is_compaction_due        invoker volatile  pinned any       -
is_drained               invoker volatile  pinned committed enable_bitmapscan=off enable_seqscan=off jit=off
is_gated                 invoker stable    pinned any       -
is_held                  invoker volatile  pinned any       -
is_hour_allowed          invoker immutable parsed any       -
is_same_failure          invoker stable    parsed any       -
is_seen_drained          invoker volatile  pinned any       -
jobs_of                  invoker stable    parsed any       -
json_of                  invoker immutable pinned any       -
keep_pieces              invoker volatile  pinned any       -
letter_payload           invoker immutable pinned any       -
letters_with_policy      definer stable    pinned any       -
list_archived            invoker stable    pinned any       -
list_jobs                invoker stable    pinned any       jit=off
list_letters             invoker stable    pinned any       enable_bitmapscan=off jit=off
live_waits               invoker stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
lock_for_edit            invoker volatile  pinned rows      -
lock_letters             invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
make_ready               invoker volatile  pinned any       -
mask                     invoker immutable parsed any       -
mask_ids                 invoker immutable parsed any       -
mask_numbers             invoker immutable parsed any       -
mask_places              invoker immutable parsed any       -
mask_quotes              invoker immutable parsed any       -
mask_rest                invoker immutable pinned any       -
mask_tokens              invoker immutable parsed any       -
metric_totals            definer volatile  pinned committed enable_seqscan=on jit=off synchronize_seqscans=off
metrics_bloat            definer stable    pinned any       jit=off
metrics_cap              invoker immutable parsed any       -
metrics_job_queues       invoker stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
metrics_letter_queues    invoker stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
metrics_letters          definer stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_operations       definer stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_priorities       invoker immutable parsed any       -
metrics_queues           definer stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
metrics_server           invoker stable    pinned any       jit=off
metrics_tables           definer stable    pinned any       jit=off
move_stragglers          invoker volatile  pinned rows      -
names_payload            invoker immutable pinned any       -
new_metric_slots         invoker stable    pinned any       -
note_group               invoker volatile  pinned any       -
oldest_kept_xid          invoker volatile  pinned any       -
open_breaker             invoker volatile  pinned any       -
overlapping_runs         invoker stable    pinned any       -
page_editable            invoker stable    pinned any       -
page_letters             invoker stable    pinned any       -
page_waiting             invoker stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
pass_turn                definer volatile  pinned any       enable_seqscan=off
past_failures            invoker stable    pinned any       -
pause_queue              invoker volatile  pinned any       -
pause_schedule           invoker volatile  pinned any       -
place_metric_tallies     invoker stable    pinned any       -
pointer_parts            invoker immutable pinned any       -
pointer_paths            invoker immutable pinned any       -
policy_wait              invoker immutable parsed any       -
preview_redrive          invoker stable    pinned any       -
protect_audit            invoker volatile  pinned any       -
prune_audit              definer volatile  pinned any       -
prune_groups             invoker volatile  pinned committed lock_timeout=50ms
prune_letters            invoker volatile  pinned any       enable_seqscan=on
put_back                 invoker volatile  pinned any       -
queues_with_letters      invoker stable    pinned any       enable_seqscan=off jit=off
readmitted               invoker volatile  pinned any       -
record_act               invoker volatile  pinned any       -
record_run_outcomes      invoker volatile  pinned any       -
redact                   invoker stable    pinned any       -
redact_bytes             invoker immutable pinned any       -
redact_groups            invoker volatile  pinned any       -
redact_letters           invoker volatile  pinned rows      -
redact_text              invoker immutable pinned any       -
redact_values            invoker immutable pinned any       -
redrive                  invoker volatile  pinned any       -
redrive_letters          invoker volatile  pinned any       -
refuse_death             invoker volatile  pinned any       -
refused_letters          invoker stable    pinned any       enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off
regroup_letters          invoker volatile  pinned rows      enable_seqscan=off
release_group            invoker volatile  pinned any       -
remove_event             invoker volatile  pinned any       -
remove_gameday           definer volatile  pinned committed enable_seqscan=on jit=off
remove_group_rule        invoker volatile  pinned any       -
remove_letters           invoker volatile  pinned rows      -
remove_policy            invoker volatile  pinned any       -
remove_protection        invoker volatile  pinned any       -
remove_redaction         invoker volatile  pinned any       -
remove_retention         invoker volatile  pinned any       -
remove_schedule          invoker volatile  pinned any       -
reopen                   invoker volatile  pinned any       -
reopen_captured          invoker volatile  pinned any       -
reopen_discarded         invoker volatile  pinned any       -
reopen_letters           invoker volatile  pinned any       -
require_read_committed   invoker volatile  pinned any       -
restore_archived         definer volatile  pinned rows      -
restore_letter           invoker volatile  pinned any       -
restore_letters          invoker volatile  pinned any       -
resume_queue             invoker volatile  pinned any       -
retention_by_queue       invoker stable    pinned any       -
retention_due            invoker stable    pinned any       -
rewrite                  invoker volatile  pinned table     lock_timeout=50ms
rule_part                invoker stable    pinned any       -
ruled_group              invoker volatile  pinned any       -
run_policies             invoker volatile  pinned rows      enable_seqscan=on
run_ticks                invoker volatile  pinned any       -
save_regressions         invoker volatile  pinned any       -
schedule                 invoker volatile  pinned any       -
segment_bytes            invoker volatile  pinned any       -
send_back                invoker volatile  pinned rows      enable_bitmapscan=off enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan work_mem=32MB
send_members             invoker volatile  pinned any       -
set_group_policy         invoker volatile  pinned any       -
set_group_state          invoker volatile  pinned any       -
set_policy               invoker volatile  pinned any       -
set_policy_mode          invoker volatile  pinned any       -
set_protection           invoker volatile  pinned any       -
set_retention            invoker volatile  pinned any       -
set_schedule             invoker volatile  pinned any       -
settle_event             invoker volatile  pinned any       -
settle_own               invoker volatile  pinned any       enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
shortened                invoker immutable parsed any       -
some_jobs_of             invoker stable    parsed any       -
still_redacted           invoker immutable pinned any       -
table_bytes              invoker volatile  pinned any       -
table_holders            invoker volatile  pinned any       -
take_jobs                invoker volatile  pinned any       -
take_keys                invoker volatile  pinned any       -
take_run                 invoker volatile  pinned rows      -
take_slot                invoker volatile  pinned any       -
take_waiting             invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
tally_added_letters      invoker volatile  pinned any       -
tally_changed_letters    invoker volatile  pinned any       -
tally_removed_letters    invoker volatile  pinned any       -
tick_schedule            definer volatile  pinned rows      -
top_frame                invoker immutable pinned any       -
trigger_schedule         invoker volatile  pinned any       -
truncate_segment         invoker volatile  pinned table     lock_timeout=50ms
turn_ring                definer volatile  pinned committed enable_seqscan=on jit=off
unarchived               invoker stable    pinned any       -
vacuum_threshold         invoker stable    pinned any       -
waiting_query            invoker stable    pinned any       -
wake                     invoker volatile  pinned any       -
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
