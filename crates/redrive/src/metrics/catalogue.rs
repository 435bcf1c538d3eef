//! Lists all metrics, their labels and the bounds of histograms.

use crate::dlq::LetterState;
use crate::job::death_cause::DeathCause;
use crate::metrics::metric::MetricKind::{Counter, Gauge, Histogram};
use crate::metrics::metric::{Distrust, Label, Metric, MetricKind, Source};
use crate::pipeline::buckets;
use crate::pipeline::outcome::FailureCause;
use crate::worker::chore::Chore;

/// The label value that sums all values beyond a limit.
pub const OTHER: &str = "__other__";

/// Defines a label whose values are not known in advance.
const fn open(name: &'static str) -> Label {
    Label { name, values: &[] }
}

/// Defines a label with all its values.
const fn known(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values }
}

pub(crate) const QUEUE: Label = open("queue");
pub(crate) const KIND: Label = open("kind");
const TABLE: Label = open("table");
const SLOT: Label = open("slot");
const JOB_STATE: Label = known("state", &["ready", "delayed", "leased"]);
const COLLECTOR: Label = known("collector", {
    let [database @ .., _reader] = &Source::WORDS;
    database
});
const CHORE: Label = known("chore", &Chore::WORDS);

/// All metrics, in the order of the documentation.
// Keeps two lines per entry.
#[rustfmt::skip]
pub const CATALOGUE: &[Metric] = &[
    // Flow. Each is counted in the statement that moves the job.
    metric(Counter, "redrive_jobs_enqueued_total", &[QUEUE], Source::Totals,
        "Jobs enqueued by any client, not counting redriven jobs."),
    metric(Counter, "redrive_jobs_claimed_total", &[QUEUE], Source::Totals,
        "Attempts claimed by workers."),
    metric(Counter, "redrive_jobs_succeeded_total", &[QUEUE, KIND], Source::Totals,
        "Jobs that succeeded."),
    metric(Counter, "redrive_job_attempts_failed_total", &[QUEUE, KIND, known("cause", &FailureCause::WORDS)], Source::Totals,
        "Failed attempts, by cause."),
    metric(Counter, "redrive_jobs_retried_total", &[QUEUE], Source::Totals,
        "Failed attempts after which the job is retried."),
    metric(Counter, "redrive_jobs_snoozed_total", &[QUEUE], Source::Totals,
        "Attempts that a handler snoozed. A snooze does not use up an attempt."),
    metric(Counter, "redrive_jobs_released_total", &[QUEUE], Source::Totals,
        "Jobs that returned to ready because their worker released them or was lost."),
    metric(Counter, "redrive_jobs_dead_lettered_total", &[QUEUE, known("cause", &DeathCause::WORDS)], Source::Totals,
        "Deaths: jobs that became dead letters for any cause, and captured failures."),
    metric(Counter, "redrive_jobs_dead_lettered_by_kind_total", &[QUEUE, KIND], Source::Totals,
        "Deaths, by kind."),
    metric(Counter, "redrive_dlq_errors_total", &[QUEUE, open("error_class")], Source::Totals,
        "Deaths, by error class."),
    metric(Counter, "redrive_dlq_captured_total", &[QUEUE, open("source")], Source::Totals,
        "Failures captured from other systems, by source."),
    metric(Counter, "redrive_jobs_dead_lettered_again_total", &[QUEUE], Source::Totals,
        "Deaths of redriven jobs, not counting those that an operator cancelled or that a letter of their group diverted."),
    metric(Counter, "redrive_dlq_redriven_total", &[QUEUE], Source::Totals,
        "Letters redriven as jobs, by the queue of the letter."),
    metric(Counter, "redrive_dlq_recovered_total", &[QUEUE], Source::Totals,
        "Letters whose jobs succeeded after a redrive."),
    metric(Counter, "redrive_dlq_discarded_total", &[QUEUE], Source::Totals,
        "Letters discarded by an operator."),
    metric(Counter, "redrive_dlq_pruned_total", &[QUEUE], Source::Totals,
        "Letters deleted or archived by age."),
    metric(Counter, "redrive_leases_lost_total", &[QUEUE], Source::Totals,
        "Leases reaped because their worker was lost."),
    metric(Counter, "redrive_results_refused_total", &[QUEUE], Source::Totals,
        "Results rejected because the lease of the job was lost."),
    metric(Counter, "redrive_enqueue_duplicates_total", &[QUEUE], Source::Totals,
        "Unique jobs not enqueued because their key is in use."),
    metric(Counter, "redrive_schedule_ticks_total", &[QUEUE, known("outcome", &["fired", "triggered", "overlapped", "missed"])], Source::Totals,
        "Ticks of schedules, by outcome."),
    // Histograms, counted in the same statements.
    metric(Histogram(buckets::SECONDS), "redrive_job_queue_wait_seconds", &[QUEUE], Source::Totals,
        "Time from when a job becomes ready to its claim, for every attempt that ended."),
    metric(Histogram(buckets::SECONDS), "redrive_job_run_seconds", &[QUEUE, known("outcome", &["succeeded", "failed"])], Source::Totals,
        "Run time of handlers, including failures."),
    metric(Histogram(buckets::END_TO_END), "redrive_job_end_to_end_seconds", &[QUEUE], Source::Totals,
        "Time from the first enqueue to success, including waits and retries."),
    metric(Histogram(buckets::ATTEMPTS), "redrive_job_attempts_to_success", &[QUEUE], Source::Totals,
        "Attempts that a job needed until success, in its current generation."),
    metric(Histogram(buckets::ATTEMPTS), "redrive_job_attempts_at_dead_letter", &[QUEUE], Source::Totals,
        "Attempts that a job had used when it died, in its current generation."),
    metric(Histogram(buckets::RETRY_DELAY), "redrive_job_retry_delay_seconds", &[QUEUE], Source::Totals,
        "Delays before retries that use up an attempt: backoff with jitter."),
    metric(Histogram(&[60.0, 600.0, 3600.0, 21600.0, 86400.0, 259_200.0, 604_800.0, 1_209_600.0, 2_592_000.0]),
        "redrive_dlq_residence_seconds", &[QUEUE, known("exit", &["redriven", "discarded"])], Source::Totals,
        "Time from a death to its redrive or discard."),
    // Chores of workers.
    metric(Histogram(buckets::CHORE), "redrive_chore_seconds", &[QUEUE, CHORE], Source::Totals,
        "Run time of the chores that the workers of a queue do for all queues, including failures."),
    metric(Counter, "redrive_chore_failures_total", &[QUEUE, CHORE], Source::Totals,
        "Failed chores, by the queue of the worker. A chore that fails backs off alone."),
    // Live jobs.
    metric(Gauge, "redrive_queue_live_jobs", &[QUEUE], Source::Totals,
        "Live jobs in all states, exact, from the totals."),
    metric(Gauge, "redrive_queue_jobs", &[QUEUE, JOB_STATE], Source::Queues,
        "Live jobs by state. Ready and delayed jobs are counted up to 10000 over all queues, see redrive_queue_jobs_capped."),
    metric(Gauge, "redrive_queue_jobs_capped", &[QUEUE, JOB_STATE], Source::Queues,
        "1 if there are more jobs than were counted, otherwise 0."),
    metric(Gauge, "redrive_queue_ready_jobs_by_kind", &[QUEUE, KIND], Source::Queues,
        "Ready jobs by kind, among those that redrive_queue_jobs counts."),
    metric(Gauge, "redrive_queue_unhandled_jobs", &[QUEUE], Source::Queues,
        "Ready jobs of kinds that no live worker of the queue handles, among those that redrive_queue_jobs counts."),
    metric(Gauge, "redrive_queue_oldest_ready_age_seconds", &[QUEUE], Source::Queues,
        "How long the oldest ready job that a worker may take has waited; 0 if there is none. Jobs of kinds that no live worker handles do not count, if the queue has a worker, nor do those of redrive_queue_blocked_jobs. Looks at the first 10 jobs of up to 32 priorities from the lowest on, fewer with more than 10 queues, and at the next job."),
    metric(Gauge, "redrive_queue_next_ready_age_seconds", &[QUEUE], Source::Queues,
        "How long the next job in the order of claims has been ready, among the same jobs; 0 if there is none."),
    metric(Gauge, "redrive_queue_overdue_age_seconds", &[QUEUE], Source::Queues,
        "How long the delayed job that is due first has been due; 0 if none is due. Workers make due jobs ready at once."),
    metric(Gauge, "redrive_queue_oldest_leased_age_seconds", &[QUEUE], Source::Queues,
        "Age of the oldest lease; 0 if there is none."),
    metric(Gauge, "redrive_queue_overdue_leases", &[QUEUE], Source::Queues,
        "Leases whose worker has not renewed in time and that are not reaped yet."),
    metric(Gauge, "redrive_queue_blocked_jobs", &[QUEUE], Source::Queues,
        "Ready jobs that wait for the end of another job, among those that redrive_queue_jobs counts: for the turn of their group. Jobs of kinds that no live worker handles do not count, if the queue has a worker."),
    metric(Gauge, "redrive_held_groups", &[QUEUE], Source::Queues,
        "Groups of jobs that a letter holds, counted up to 10000 over all queues."),
    metric(Gauge, "redrive_held_group_jobs", &[QUEUE], Source::Queues,
        "Ready jobs that wait behind the letter of their group, among the 1000 groups held for the longest time, counted up to 10000 over all queues."),
    metric(Gauge, "redrive_held_group_oldest_age_seconds", &[QUEUE], Source::Queues,
        "How long a letter has held the group that has been held for the longest time; 0 if no group is held."),
    metric(Gauge, "redrive_queue_last_success_timestamp_seconds", &[QUEUE], Source::Totals,
        "Time of the last success; 0 if there was none."),
    // Letters.
    metric(Gauge, "redrive_dlq_letters", &[QUEUE, known("state", &LetterState::WORDS)], Source::Totals,
        "Dead letters by state, exact, from the totals."),
    metric(Gauge, "redrive_dlq_oldest_age_seconds", &[QUEUE, known("waits_for", &["operator", "retry"])], Source::Letters,
        "Time since the death of the oldest open letter; 0 if no letter is open. Letters of ignored groups do not count. A letter waits for a retry if an active policy will redrive it and it is among the 2500 oldest over all queues, or if a consumer of `dlq_events` has claimed it or put it off."),
    metric(Gauge, "redrive_dlq_retention_seconds", &[QUEUE], Source::Letters,
        "Age at which retention archives open letters; 0 if it never does."),
    // Operations.
    metric(Gauge, "redrive_workers", &[QUEUE, known("state", &["busy", "waiting", "expired"])], Source::Operations,
        "Workers by state, each once for each of its queues. Expired workers have not renewed in time."),
    metric(Gauge, "redrive_worker_slots", &[QUEUE], Source::Operations,
        "Slots of live workers, which is the number of jobs that can run at once. Slots that queues share count for each of them."),
    metric(Gauge, "redrive_worker_slots_busy", &[QUEUE], Source::Operations,
        "Slots that run a handler, of this queue or of another one that shares them: the leased jobs of each worker, or full batches of them if it has only those, up to its slots."),
    metric(Gauge, "redrive_breakers", &[QUEUE, known("state", &["open", "half_open"])], Source::Operations,
        "Breakers that hold back jobs. The breaker of a dependency counts once per queue with workers for its kinds."),
    metric(Gauge, "redrive_queue_paused", &[QUEUE, known("end", &["none", "planned"])], Source::Operations,
        "1 if an operator paused the queue, otherwise 0: until it is resumed (none) or until a time that was given (planned)."),
    metric(Gauge, "redrive_queue_paused_seconds", &[QUEUE], Source::Operations,
        "How long the queue has been paused; 0 if it is not paused."),
    metric(Gauge, "redrive_rate_limit_use_ratio", &[QUEUE, open("limit")], Source::Operations,
        "Share of the tokens of a rate limit that is used up: 0 in a quiet queue; above 0.4 for a long time if jobs wait for tokens. For `__each_group__`, of the group that has the fewest."),
    metric(Gauge, "redrive_rate_limit_empty", &[QUEUE, open("limit")], Source::Operations,
        "1 if a rate limit has no token for another start, otherwise 0. For `__each_group__`, of the group that has the fewest."),
    metric(Counter, "redrive_group_regressions_total", &[QUEUE], Source::Totals,
        "Resolved failure groups in which a job died again."),
    metric(Gauge, "redrive_schedule_lag_seconds", &[open("schedule")], Source::Operations,
        "How late the next tick of a schedule is; 0 if it is not due or the schedule is paused."),
    metric(Gauge, "redrive_schedule_deaths", &[open("schedule")], Source::Operations,
        "Dead letters in a row among the last 10 jobs of a schedule, counted from the latest that has ended."),
    metric(Gauge, "redrive_runs", &[known("state", &["unapproved", "running", "paused", "halted"])], Source::Operations,
        "Redrive runs that have not ended; unapproved ones wait for a second operator."),
    metric(Gauge, "redrive_run_letters_waiting", &[], Source::Operations,
        "Letters that redrive runs have not sent yet."),
    metric(Gauge, "redrive_run_letters_unsettled", &[], Source::Operations,
        "Letters that redrive runs have sent and whose jobs have no outcome yet."),
    metric(Gauge, "redrive_run_idle_seconds", &[], Source::Operations,
        "How long the run that has made no progress for the longest has neither sent a letter nor had an outcome, among running runs with letters to send; 0 if there is none."),
    metric(Counter, "redrive_run_outcomes_total", &[known("outcome", &["recovered", "died_alike", "died_differently"])], Source::Operations,
        "Outcomes of letters that redrive runs have sent."),
    // Tables.
    metric(Gauge, "redrive_table_bytes", &[TABLE, known("part", &["heap", "index", "toast"])], Source::Tables,
        "Size on disk. Jobs are the sum of all segments of the ring."),
    metric(Gauge, "redrive_table_live_rows_estimate", &[TABLE], Source::Tables,
        "Live rows, from the statistics of the server."),
    metric(Gauge, "redrive_table_dead_rows_estimate", &[TABLE], Source::Tables,
        "Dead rows that vacuum has not removed, from the statistics of the server."),
    metric(Gauge, "redrive_table_autovacuum_threshold_rows", &[TABLE], Source::Tables,
        "Number of dead rows that triggers autovacuum, from the settings of the table."),
    metric(Gauge, "redrive_table_bloat_bytes_estimate", &[TABLE], Source::Tables,
        "Dead rows and empty space in the heap, estimated from the statistics of the server."),
    metric(Gauge, "redrive_ring_turned_timestamp_seconds", &[], Source::Tables,
        "Time of the last turn of the ring of segments."),
    metric(Gauge, "redrive_ring_truncated_timestamp_seconds", &[], Source::Tables,
        "Time of the last truncation of a drained segment; 0 if there was none."),
    metric(Gauge, "redrive_ring_clean_segments", &[], Source::Tables,
        "Segments of the ring without any row, live or dead. At 0 the current segment keeps growing."),
    // Server.
    metric(Gauge, "redrive_pg_oldest_horizon_age_transactions",
        &[known("holder", &["backend", "idle_in_transaction", "prepared", "slot", "standby_feedback"])], Source::Server,
        "Transactions since the oldest one that each kind of holder keeps visible to vacuum."),
    metric(Gauge, "redrive_pg_oldest_horizon_age_seconds", &[known("holder", &["backend", "idle_in_transaction", "prepared"])], Source::Server,
        "How long each kind of holder has held back the horizon; the server does not say it of slots and standbys. A vacuum holds nothing back."),
    metric(Gauge, "redrive_pg_oldest_transaction_age_seconds", &[], Source::Server,
        "Age of the oldest transaction in this database, except vacuums."),
    metric(Gauge, "redrive_pg_replication_slot_active", &[SLOT], Source::Server,
        "1 if the slot has a consumer, otherwise 0."),
    metric(Gauge, "redrive_pg_replication_slot_retained_wal_bytes", &[SLOT], Source::Server,
        "WAL that the server retains for the slot."),
    metric(Gauge, "redrive_pg_frozen_id_age", &[known("kind", &["transaction", "multixact"])], Source::Server,
        "Age of the oldest unfrozen transaction ID and of the oldest multixact ID of all databases of the server, in IDs."),
    metric(Gauge, "redrive_pg_lock_waiters", &[], Source::Server,
        "Backends of this database that are waiting for a lock."),
    metric(Gauge, "redrive_pg_connections", &[open("state")], Source::Server,
        "Client connections of the server, by state."),
    metric(Gauge, "redrive_pg_connections_limit", &[], Source::Server,
        "Maximum number of connections of the server."),
    // The reader.
    metric(Gauge, "redrive_up", &[], Source::Reader,
        "1 if the database answered this scrape and the metrics of jobs, letters and workers can be trusted, otherwise 0. See redrive_down for the cause."),
    metric(Gauge, "redrive_down", &[known("cause", &Distrust::WORDS)], Source::Reader,
        "1 for the cause of redrive_up 0: no answer, no schema, a missing privilege, or another failure of the collectors totals, queues, letters or operations for 5 minutes."),
    metric(Gauge, "redrive_exporter_build_info", &[open("version")], Source::Reader,
        "Always 1, with the version of the exporter."),
    metric(Gauge, "redrive_collector_duration_seconds", &[COLLECTOR], Source::Reader,
        "Duration of the last read of each collector."),
    metric(Gauge, "redrive_collector_success", &[COLLECTOR], Source::Reader,
        "1 if the last read of the collector succeeded, otherwise 0. The last good values stay published for 5 minutes."),
    metric(Gauge, "redrive_collector_last_success_timestamp_seconds", &[COLLECTOR], Source::Reader,
        "Time of the last successful read; 0 if there was none."),
    metric(Gauge, "redrive_fold_age_seconds", &[], Source::Totals,
        "Age of the oldest count that is not folded into the totals; 0 if all are folded."),
    metric(Counter, "redrive_totals_regressions_total", &[], Source::Reader,
        "Counters that were lower in the database than published before, after a failover that lost commits or a restore."),
    metric(Gauge, "redrive_series_folded", &[known("label", &["queue"])], Source::Totals,
        "1 if queues are beyond their limit and were counted under __other__ within a day, otherwise 0."),
    metric(Gauge, "redrive_schema_version", &[], Source::Reader,
        "Migrations applied to the database."),
    metric(Gauge, "redrive_schema_compatible", &[], Source::Reader,
        "1 if this program knows the schema, otherwise 0."),
];

const fn metric(
    kind: MetricKind,
    name: &'static str,
    labels: &'static [Label],
    source: Source,
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        source,
        help,
    }
}

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, MetricKind, Source};

    // Promtool checks the conventions of the page.
    #[test]
    fn labels_help_and_bounds_follow_our_conventions() {
        for metric in CATALOGUE {
            let name = metric.name;
            let mut but_last = metric.labels.iter().rev().skip(1);
            let are_open = but_last.all(|label| label.values.is_empty());
            assert!(are_open, "only the last label of {name} may be predefined");
            let help = metric.help;
            assert!(help.ends_with('.'), "the help of {name} needs a period");
            let is_cell = !help.contains(['\n', '|']);
            assert!(is_cell, "the help of {name} must fit in a cell of Markdown");
            if let MetricKind::Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|a, b| a < b), "{name}");
                assert_eq!(metric.source, Source::Totals, "{name}");
            }
        }
    }
}
