//! The decisions about every table.

/// Each table: how a publication of all tables identifies its rows, and how it is vacuumed.
///
/// Every table that loses or changes rows needs a primary key or the whole row; the parts of a
/// partitioned table decide for themselves. Tables that turn over quickly are vacuumed after a fixed
/// number of dead rows, because a share of a large table is too many.
pub(super) const TABLES: &str = "
archived_letters     key   -
audit                key   -
breakers             key   fillfactor=50
captured_pieces      key   -
claim_marks          key   -
compactions          key   -
counter_keys         key   -
dead_letters         key   vacuum_scale_factor=0.02 vacuum_threshold=1000
definitions          key   -
delayed_marks        key   -
details              key   -
diverted_groups      key   -
exclusive_tasks      key   -
failure_hours        key   -
group_buckets        key   vacuum_scale_factor=0 vacuum_threshold=10000
group_policies       key   -
group_rules          key   -
group_slots          key   vacuum_scale_factor=0 vacuum_threshold=10000
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
jobs_waiting         full  vacuum_scale_factor=0 vacuum_threshold=10000
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
unique_windows       key   vacuum_scale_factor=0 vacuum_threshold=10000
workers              key   vacuum_scale_factor=0 vacuum_threshold=200 fillfactor=50
";
