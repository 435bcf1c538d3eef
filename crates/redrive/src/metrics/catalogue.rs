//! The catalogue: one entry a metric.

use crate::metrics::labels::{
    AGE, ATTEMPT_BOUNDS, BREAKER_STATE, CAUSE, COLLECTOR, DELAY_BOUNDS, END_TO_END_BOUNDS, EXIT,
    GROUP_STATE, HOLDER, KIND, LETTER_STATE, METHOD, OUTCOME, PART, PLACE, QUEUE, REASON,
    RESIDENCE_BOUNDS, RUN_OUTCOME, RUN_STATE, SLOT, TABLE, VACUUM, WAIT_BOUNDS, WORKER_STATE, open,
};
use crate::metrics::metric::{Label, Metric, MetricKind, Source};

/// Every metric, in the order of the documentation.
// A table: two lines an entry.
#[rustfmt::skip]
pub const CATALOGUE: &[Metric] = &[
    // Flow: counted in the statement that moves the job.
    counter("redrive_jobs_enqueued_total", &[QUEUE], Source::Totals,
        "Jobs enqueued, by any client. Redriven ones are not among them."),
    counter("redrive_jobs_claimed_total", &[QUEUE], Source::Totals,
        "Attempts handed out to workers."),
    counter("redrive_jobs_succeeded_total", &[QUEUE, KIND], Source::Totals,
        "Jobs done."),
    counter("redrive_job_attempts_failed_total", &[QUEUE, KIND, CAUSE], Source::Totals,
        "Attempts that failed, by cause."),
    counter("redrive_jobs_retried_total", &[QUEUE], Source::Totals,
        "Failed attempts after which another one follows by itself."),
    counter("redrive_jobs_snoozed_total", &[QUEUE], Source::Totals,
        "Attempts that a handler put off without a charge."),
    counter("redrive_jobs_released_total", &[QUEUE], Source::Totals,
        "Jobs that workers gave back unrun, or whose worker was lost, and that are ready again."),
    counter("redrive_jobs_dead_lettered_total", &[QUEUE, REASON], Source::Totals,
        "Deaths: jobs that became dead letters by every path, and captured failures."),
    counter("redrive_jobs_dead_lettered_by_kind_total", &[QUEUE, KIND], Source::Totals,
        "The same deaths, by kind."),
    counter("redrive_dlq_errors_total", &[QUEUE, open("error_class")], Source::Totals,
        "The same deaths, by error class."),
    counter("redrive_jobs_dead_lettered_again_total", &[QUEUE], Source::Totals,
        "Deaths of jobs that had been redriven."),
    counter("redrive_dlq_redriven_total", &[QUEUE], Source::Totals,
        "Letters sent back as jobs, by the queue they left."),
    counter("redrive_dlq_recovered_total", &[QUEUE], Source::Totals,
        "Letters whose jobs were done after a redrive."),
    counter("redrive_dlq_discarded_total", &[QUEUE], Source::Totals,
        "Letters that an operator closed."),
    counter("redrive_dlq_pruned_total", &[QUEUE], Source::Totals,
        "Letters deleted or archived by age."),
    counter("redrive_leases_lost_total", &[QUEUE], Source::Totals,
        "Leases ended because their worker was gone."),
    counter("redrive_results_refused_total", &[QUEUE], Source::Totals,
        "Results of jobs whose lease was lost: refused by the fence, without effect."),
    counter("redrive_enqueue_duplicates_total", &[QUEUE], Source::Totals,
        "Unique jobs that were not enqueued because their key is in use."),
    // Histograms, by the same path.
    histogram("redrive_job_queue_wait_seconds", &[QUEUE], WAIT_BOUNDS,
        "From the moment a job could be claimed to its claim, every attempt that ended."),
    histogram("redrive_job_run_seconds", &[QUEUE, OUTCOME], WAIT_BOUNDS,
        "How long handlers ran, failures included."),
    histogram("redrive_job_end_to_end_seconds", &[QUEUE], END_TO_END_BOUNDS,
        "From the first enqueue to success, with all waiting and retries."),
    histogram("redrive_job_attempts_to_success", &[QUEUE], ATTEMPT_BOUNDS,
        "Attempts of this generation that a job needed until it was done."),
    histogram("redrive_job_attempts_at_dead_letter", &[QUEUE], ATTEMPT_BOUNDS,
        "Attempts of this generation that a job had when it died."),
    histogram("redrive_job_retry_delay_seconds", &[QUEUE], DELAY_BOUNDS,
        "Delays chosen before retries: backoff with jitter."),
    histogram("redrive_dlq_residence_seconds", &[QUEUE, EXIT], RESIDENCE_BOUNDS,
        "From a death to its redrive or discard."),
    // Live jobs.
    gauge("redrive_queue_live_jobs", &[QUEUE], Source::Totals,
        "Pending depth: live jobs in all states, exact, from the totals."),
    gauge("redrive_queue_jobs", &[QUEUE, PLACE], Source::Queues,
        "Pending depth by state; ready and delayed are counted to 10000 over all queues, see redrive_queue_jobs_capped."),
    gauge("redrive_queue_jobs_capped", &[QUEUE, PLACE], Source::Queues,
        "1 when there are more than were counted, else 0."),
    gauge("redrive_queue_oldest_ready_age_seconds", &[QUEUE], Source::Queues,
        "For how long the first job in the order of claims has been ready; 0 when none is."),
    gauge("redrive_queue_oldest_leased_age_seconds", &[QUEUE], Source::Queues,
        "Age of the oldest lease; 0 when there is none."),
    gauge("redrive_queue_overdue_leases", &[QUEUE], Source::Queues,
        "Leases whose worker has not renewed in time and that were not reaped yet."),
    gauge("redrive_queue_last_success_timestamp_seconds", &[QUEUE], Source::Totals,
        "When a job was done last; 0: never."),
    // Letters.
    gauge("redrive_dlq_letters", &[QUEUE, LETTER_STATE], Source::Totals,
        "Dead letters by state, exact, from the totals."),
    gauge("redrive_dlq_oldest_age_seconds", &[QUEUE], Source::Letters,
        "Time since the death of the oldest open letter; 0 when none is open."),
    gauge("redrive_dlq_letters_older_than", &[QUEUE, AGE], Source::Letters,
        "Open letters that died longer ago than this; counted to 2500 over all queues."),
    gauge("redrive_dlq_retention_seconds", &[QUEUE], Source::Letters,
        "Age at which open letters are deleted or archived by themselves; 0: never."),
    // Operations.
    gauge("redrive_workers", &[QUEUE, WORKER_STATE], Source::Operations,
        "Workers by state; expired ones have not renewed in time."),
    gauge("redrive_worker_slots", &[QUEUE], Source::Operations,
        "Slots of the workers that are alive: how many jobs can run at once."),
    gauge("redrive_worker_slots_busy", &[QUEUE], Source::Operations,
        "Slots in which a handler runs: the leased jobs of each worker, at most its slots."),
    gauge("redrive_breakers", &[QUEUE, BREAKER_STATE], Source::Operations,
        "Breakers that hold jobs back; one of a dependency for each queue with workers for its kinds."),
    gauge("redrive_failure_groups", &[QUEUE, GROUP_STATE], Source::Operations,
        "Failure groups by state; counted to 10000 over all queues."),
    counter("redrive_group_regressions_total", &[QUEUE], Source::Operations,
        "Resolved failure groups in which a job died again."),
    gauge("redrive_runs", &[RUN_STATE], Source::Operations,
        "Redrive runs that are not over."),
    gauge("redrive_run_letters_waiting", &[], Source::Operations,
        "Letters that redrive runs have still to send."),
    gauge("redrive_run_letters_unsettled", &[], Source::Operations,
        "Letters that redrive runs have sent and whose jobs have no outcome yet."),
    counter("redrive_run_outcomes_total", &[RUN_OUTCOME], Source::Operations,
        "Outcomes of letters that redrive runs have sent."),
    // Tables.
    gauge("redrive_table_bytes", &[TABLE, PART], Source::Tables,
        "Size on disk; jobs are all segments of the ring together."),
    gauge("redrive_index_bytes", &[TABLE, open("index")], Source::Tables,
        "Size of an index on disk."),
    gauge("redrive_table_live_rows_estimate", &[TABLE], Source::Tables,
        "Live rows, by the statistics of the server."),
    gauge("redrive_table_dead_rows_estimate", &[TABLE], Source::Tables,
        "Dead rows that vacuum has not removed, by the statistics of the server."),
    gauge("redrive_table_autovacuum_threshold_rows", &[TABLE], Source::Tables,
        "Dead rows at which autovacuum comes, by the table's own settings."),
    counter("redrive_table_rows_inserted_total", &[TABLE], Source::Tables,
        "Rows inserted."),
    counter("redrive_table_rows_updated_total", &[TABLE], Source::Tables,
        "Rows updated."),
    counter("redrive_table_rows_hot_updated_total", &[TABLE], Source::Tables,
        "Rows updated without a new index entry."),
    counter("redrive_table_rows_deleted_total", &[TABLE], Source::Tables,
        "Rows deleted."),
    counter("redrive_table_sequential_scans_total", &[TABLE], Source::Tables,
        "Sequential scans; of jobs there should be none."),
    counter("redrive_table_vacuums_total", &[TABLE, VACUUM], Source::Tables,
        "Vacuums completed."),
    gauge("redrive_table_last_vacuum_timestamp_seconds", &[TABLE, VACUUM], Source::Tables,
        "When it was vacuumed last; 0: never."),
    gauge("redrive_table_bloat_bytes_estimate", &[TABLE, METHOD], Source::Bloat,
        "Bytes that dead rows and empty space take up in the heap; the method is stats or pgstattuple."),
    gauge("redrive_ring_turned_timestamp_seconds", &[], Source::Tables,
        "When the ring of segments turned last."),
    gauge("redrive_ring_truncated_timestamp_seconds", &[], Source::Tables,
        "When a drained segment was truncated last; 0: never."),
    // Server.
    gauge("redrive_pg_oldest_horizon_age_transactions", &[HOLDER], Source::Server,
        "Transactions since the oldest one that each kind of holder keeps vacuum from."),
    gauge("redrive_pg_oldest_horizon_age_seconds", &[HOLDER], Source::Server,
        "Time since then; of slots and standbys since it was first seen."),
    gauge("redrive_pg_oldest_transaction_age_seconds", &[], Source::Server,
        "Age of the oldest transaction in this database."),
    gauge("redrive_pg_replication_slot_active", &[SLOT], Source::Server,
        "1 when somebody reads the slot, else 0."),
    gauge("redrive_pg_replication_slot_retained_wal_bytes", &[SLOT], Source::Server,
        "WAL that the server keeps for the slot."),
    gauge("redrive_pg_replication_slot_safe_wal_bytes", &[SLOT], Source::Server,
        "WAL that can be written until the slot is lost; only with max_slot_wal_keep_size."),
    gauge("redrive_pg_frozen_xid_age", &[], Source::Server,
        "Transactions since the oldest one in this database that is not frozen."),
    gauge("redrive_pg_lock_waiters", &[], Source::Server,
        "Backends of this database that wait for a lock."),
    gauge("redrive_pg_connections", &[open("state")], Source::Server,
        "Client connections of the server, by state."),
    gauge("redrive_pg_connections_limit", &[], Source::Server,
        "Connections that the server allows."),
    gauge("redrive_pg_autovacuum_workers", &[], Source::Server,
        "Autovacuum workers that run now."),
    gauge("redrive_pg_autovacuum_workers_limit", &[], Source::Server,
        "Autovacuum workers that the server allows."),
    gauge("redrive_pg_in_recovery", &[], Source::Server,
        "1 on a standby, else 0."),
    gauge("redrive_pg_start_timestamp_seconds", &[], Source::Server,
        "When the server started."),
    gauge("redrive_pg_stats_reset_timestamp_seconds", &[], Source::Server,
        "When its statistics began; after a crash they begin anew, and dead rows read 0."),
    // The reader.
    gauge("redrive_up", &[], Source::Reader,
        "1 when the database answered this scrape, else 0."),
    gauge("redrive_exporter_build_info", &[open("version")], Source::Reader,
        "Always 1; the version of the exporter."),
    gauge("redrive_scrape_duration_seconds", &[], Source::Reader,
        "How long the last reading of the database took."),
    gauge("redrive_collector_duration_seconds", &[COLLECTOR], Source::Reader,
        "How long each collector took when it was read last."),
    gauge("redrive_collector_success", &[COLLECTOR], Source::Reader,
        "1 when the collector was read at its last turn, else 0; its last good values stay published."),
    gauge("redrive_collector_last_success_timestamp_seconds", &[COLLECTOR], Source::Reader,
        "When the collector was read last; 0: never. Tables are read once a minute, bloat once an hour."),
    gauge("redrive_fold_age_seconds", &[], Source::Totals,
        "Age of the oldest count that is not folded into the totals yet; 0 when all are."),
    counter("redrive_totals_regressions_total", &[], Source::Reader,
        "Counters that were lower in the database than published before: a failover that lost commits."),
    gauge("redrive_audit_drift_jobs", &[QUEUE, Label { name: "set", values: &["live", "dlq"], }], Source::Totals,
        "Rows less totals at the last audit of the counters; anything but 0 is a bug."),
    gauge("redrive_series_folded", &[Label { name: "label", values: &["queue", "kind", "error_class"], }], Source::Totals,
        "Values of a label beyond its limit, which are summed under __other__."),
    gauge("redrive_schema_version", &[], Source::Reader,
        "Migrations applied to the database."),
    gauge("redrive_schema_compatible", &[], Source::Reader,
        "1 when this program knows the schema, else 0."),
];

const fn counter(
    name: &'static str,
    labels: &'static [Label],
    source: Source,
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        labels,
        source,
        help,
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [Label],
    source: Source,
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        labels,
        source,
        help,
    }
}

const fn histogram(
    name: &'static str,
    labels: &'static [Label],
    bounds: &'static [f64],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram(bounds),
        labels,
        source: Source::Totals,
        help,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{CATALOGUE, MetricKind, Source};

    #[test]
    fn names_and_help_follow_the_conventions() {
        let mut names = HashSet::new();
        for metric in CATALOGUE {
            let name = metric.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("redrive_"), "{name}");
            let is_counter = matches!(metric.kind, MetricKind::Counter);
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            assert!(
                metric.help.ends_with('.'),
                "the help of {name} is a sentence"
            );
            assert!(
                !metric.help.contains(['\n', '|']),
                "the help of {name} goes into a table"
            );
        }
    }

    #[test]
    fn bounds_rise() {
        for metric in CATALOGUE {
            if let MetricKind::Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|a, b| a < b), "{}", metric.name);
                assert_eq!(metric.source, Source::Totals, "{}", metric.name);
            }
        }
    }
}
