//! Each function of the schema, with what was decided about it.

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
pub(super) const FUNCTIONS: &str = "
add_attempt              invoker immutable parsed any       -
add_counts               invoker immutable parsed any       -
add_event                invoker immutable parsed any       -
add_group_rule           invoker volatile  pinned any       -
add_redaction            invoker volatile  pinned any       -
add_to_events            definer volatile  pinned any       -
age_jobs                 invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
altered                  invoker immutable parsed any       -
apply_retention          invoker volatile  pinned rows      enable_seqscan=on
archive_json             invoker stable    pinned any       -
assign_group             invoker volatile  pinned any       -
audit_counters           definer volatile  pinned committed -
audit_removed_events     definer volatile  pinned any       -
blocked_letters          invoker stable    pinned any       -
bury                     invoker volatile  pinned rows      -
bury_unhandled           invoker volatile  pinned any       -
bury_waiting             invoker volatile  pinned any       -
capture                  definer volatile  pinned any       -
capture_letters          definer volatile  pinned rows      -
capture_many             definer volatile  pinned any       -
captured_headers         invoker immutable parsed any       -
change_event             definer volatile  pinned rows      -
change_jobs              invoker volatile  pinned any       -
change_run               invoker volatile  pinned rows      -
check_allowed            invoker stable    pinned any       -
check_breaker_name       invoker immutable pinned any       -
check_filter             invoker stable    pinned any       -
check_name               invoker immutable pinned any       -
check_redaction          invoker volatile  pinned any       -
check_redrive            invoker immutable pinned any       -
check_size               invoker stable    pinned any       -
checked_payload          invoker immutable pinned any       standard_conforming_strings=on
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
count_removed_letters    invoker volatile  pinned any       -
count_restored           invoker volatile  pinned any       -
count_rows               invoker stable    pinned any       enable_seqscan=on jit=off
create_run               invoker volatile  pinned any       -
cut_history              invoker immutable pinned any       -
delete_archived          definer volatile  pinned rows      -
delete_pieces            definer volatile  pinned any       -
delete_version_pieces    definer volatile  pinned any       -
delete_versions          invoker volatile  pinned any       -
detail_of                invoker volatile  pinned any       -
discard                  invoker volatile  pinned any       -
discard_letters          invoker volatile  pinned any       -
divert                   invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
drive_chunk              invoker volatile  pinned rows      -
drive_run                invoker volatile  pinned rows      -
drop_redacted_pieces     invoker volatile  pinned any       -
due_letters              invoker volatile  pinned rows      -
edit_letter              invoker volatile  pinned any       -
edit_letters             invoker volatile  pinned rows      -
end_waiting              invoker volatile  pinned any       -
ends_with_jobs           invoker volatile  pinned any       -
enqueue                  invoker volatile  pinned any       -
entry_segment            invoker stable    parsed any       -
erasable                 definer stable    pinned any       -
erase                    invoker volatile  pinned any       -
erase_batch              definer volatile  pinned rows      -
erase_from_audit         invoker volatile  pinned any       -
erase_from_groups        invoker volatile  pinned any       -
expand_record            invoker immutable parsed any       -
fewest_tokens            invoker volatile  pinned any       -
filter_archive           invoker stable    pinned any       -
filter_condition         invoker stable    pinned any       -
filter_erased_jobs       invoker stable    pinned any       -
filter_erasure           invoker stable    pinned any       -
filter_jobs              invoker stable    parsed any       -
filter_keys              invoker immutable parsed any       -
filter_letters           invoker stable    parsed any       -
filter_values            invoker immutable pinned any       -
fingerprint              invoker immutable parsed any       -
fold_letters             invoker volatile  pinned committed enable_seqscan=on
fold_metrics             definer volatile  pinned committed enable_seqscan=on jit=off lock_timeout=50ms
fold_runs                invoker volatile  pinned rows      enable_seqscan=off jit=off
forget_full_buckets      invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off
free_slots               invoker volatile  pinned any       -
free_started_keys        invoker volatile  pinned any       -
full_history             invoker stable    pinned any       -
grant_metric_slots       invoker volatile  pinned any       -
grant_metrics            invoker volatile  pinned any       -
grant_role               invoker volatile  pinned any       -
group_of                 invoker volatile  pinned any       -
has_refused_death        invoker volatile  pinned any       -
headers_with_long        invoker immutable parsed any       -
held_queues              invoker stable    pinned any       -
history_before           invoker immutable pinned any       -
hold_diverted            definer volatile  pinned rows      enable_seqscan=off
holds_other_bytes        definer volatile  pinned any       -
import_letters           invoker volatile  pinned any       -
imported                 invoker volatile  pinned any       -
is_compaction_due        invoker volatile  pinned any       -
is_drained               invoker volatile  pinned committed enable_bitmapscan=off enable_seqscan=off jit=off
is_gated                 invoker stable    pinned any       -
is_held                  invoker volatile  pinned any       -
is_hour_allowed          invoker immutable parsed any       -
is_same_failure          invoker stable    parsed any       -
is_seen_drained          invoker volatile  pinned any       -
job_of                   invoker immutable parsed any       -
jobs_of                  invoker stable    parsed any       -
json_of                  invoker immutable pinned any       -
keep_pieces              invoker volatile  pinned any       -
letters_with_policy      invoker stable    pinned any       -
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
mask_rest                invoker immutable pinned any       standard_conforming_strings=on
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
open_window              definer volatile  pinned rows      -
overlapping_runs         invoker stable    pinned any       -
page_editable            invoker stable    pinned any       -
page_letters             invoker stable    pinned any       -
page_waiting             invoker stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
pass_slots               invoker volatile  pinned any       enable_seqscan=off
pass_turn                definer volatile  pinned any       enable_seqscan=off
past_failures            invoker stable    pinned any       -
pause_queue              invoker volatile  pinned any       -
pause_schedule           invoker volatile  pinned any       -
place_metric_tallies     invoker stable    pinned any       -
place_of                 invoker immutable parsed any       -
pointer_parts            invoker immutable pinned any       -
pointer_paths            invoker immutable pinned any       -
policy_wait              invoker immutable parsed any       -
preview_redrive          invoker stable    pinned any       -
protect_audit            invoker volatile  pinned any       -
prune_audit              definer volatile  pinned any       -
prune_groups             invoker volatile  pinned committed lock_timeout=50ms
prune_letters            invoker volatile  pinned any       enable_seqscan=on
queues_with_held_groups  definer stable    pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
queues_with_letters      invoker stable    pinned any       enable_seqscan=off jit=off
readable_payload         invoker immutable parsed any       -
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
redriven_segment         definer volatile  pinned rows      -
refuse_death             invoker volatile  pinned any       -
refused_letters          invoker stable    pinned any       enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off
regroup_letters          invoker volatile  pinned rows      enable_seqscan=off
release_group            invoker volatile  pinned any       -
remove_event             definer volatile  pinned rows      -
remove_group_rule        invoker volatile  pinned any       -
remove_letters           invoker volatile  pinned rows      -
remove_locked            invoker volatile  pinned any       -
remove_policy            invoker volatile  pinned any       -
remove_protection        invoker volatile  pinned any       -
remove_rate_limit        invoker volatile  pinned any       -
remove_redaction         invoker volatile  pinned any       -
remove_retention         invoker volatile  pinned any       -
remove_schedule          invoker volatile  pinned any       -
reopen                   invoker volatile  pinned any       -
reopen_captured          invoker volatile  pinned any       -
reopen_discarded         invoker volatile  pinned any       -
reopen_letters           invoker volatile  pinned any       -
repair                   definer volatile  pinned committed jit=off
replace_keys             invoker volatile  pinned any       -
replace_waiting          definer volatile  pinned any       enable_bitmapscan=off enable_seqscan=off jit=off
requeue                  invoker volatile  pinned any       -
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
segment_of_returned      invoker volatile  pinned any       -
send_back                invoker volatile  pinned rows      enable_bitmapscan=off enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan work_mem=32MB
send_members             invoker volatile  pinned any       -
set_group_policy         invoker volatile  pinned any       -
set_group_state          invoker volatile  pinned any       -
set_policy               invoker volatile  pinned any       -
set_policy_mode          invoker volatile  pinned any       -
set_protection           invoker volatile  pinned any       -
set_rate_limit           invoker volatile  pinned rows      -
set_retention            invoker volatile  pinned any       -
set_schedule             invoker volatile  pinned any       -
settle_own               invoker volatile  pinned any       enable_bitmapscan=off enable_seqscan=off jit=off plan_cache_mode=force_generic_plan
shortened                invoker immutable parsed any       -
some_jobs_of             invoker stable    parsed any       -
still_redacted           invoker immutable pinned any       -
table_bytes              invoker volatile  pinned any       -
table_holders            invoker volatile  pinned any       -
take_group_tokens        invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
take_jobs                invoker volatile  pinned any       -
take_keys                invoker volatile  pinned any       -
take_run                 invoker volatile  pinned rows      -
take_slots               invoker volatile  pinned any       -
take_waiting             invoker volatile  pinned rows      enable_bitmapscan=off enable_seqscan=off jit=off
tally_added_letters      invoker volatile  pinned any       -
tally_changed_letters    invoker volatile  pinned any       -
tally_removed_letters    invoker volatile  pinned any       -
tick_schedule            definer volatile  pinned rows      -
token_capacity           invoker immutable pinned any       -
token_hold               invoker immutable pinned any       -
token_refill             invoker immutable pinned any       -
tokens_now               invoker volatile  pinned any       -
top_frame                invoker immutable pinned any       standard_conforming_strings=on
tried                    invoker immutable parsed any       -
trigger_schedule         invoker volatile  pinned any       -
truncate_segment         invoker volatile  pinned table     lock_timeout=50ms
turn_ring                definer volatile  pinned committed enable_seqscan=on jit=off
unarchived               invoker stable    pinned any       -
vacuum_threshold         invoker stable    pinned any       -
waiting_query            invoker stable    pinned any       -
wake                     invoker volatile  pinned any       -
";
