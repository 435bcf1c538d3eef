-- Purpose: The counters of metrics.
-- breaking: yes

-- The counters and histograms: the published name, the labels after the queue, and the bounds of a
-- histogram (inclusive upper bounds without infinity). The catalogue in the library is the source; a test
-- compares the two.
CREATE TABLE redrive.counter_keys (
    key    text             COLLATE "C" NOT NULL PRIMARY KEY,
    metric text             COLLATE "C",
    labels text[]           COLLATE "C" NOT NULL DEFAULT '{}',
    bounds double precision[]
);

COMMENT ON COLUMN redrive.counter_keys.metric IS 'NULL: not published, but part of redrive_queue_live_jobs.';

INSERT INTO redrive.counter_keys (key, metric, labels) VALUES
    ('enqueued', 'redrive_jobs_enqueued_total', '{}'),
    ('claimed', 'redrive_jobs_claimed_total', '{}'),
    ('succeeded', 'redrive_jobs_succeeded_total', '{kind}'),
    ('failed', 'redrive_job_attempts_failed_total', '{kind,cause}'),
    ('retried', 'redrive_jobs_retried_total', '{}'),
    ('snoozed', 'redrive_jobs_snoozed_total', '{}'),
    ('released', 'redrive_jobs_released_total', '{}'),
    ('dead', 'redrive_jobs_dead_lettered_total', '{cause}'),
    ('dead_kind', 'redrive_jobs_dead_lettered_by_kind_total', '{kind}'),
    ('dead_class', 'redrive_dlq_errors_total', '{error_class}'),
    ('captured', 'redrive_dlq_captured_total', '{source}'),
    ('dead_again', 'redrive_jobs_dead_lettered_again_total', '{}'),
    ('redriven', 'redrive_dlq_redriven_total', '{}'),
    ('recovered', 'redrive_dlq_recovered_total', '{}'),
    ('discarded', 'redrive_dlq_discarded_total', '{}'),
    ('pruned', 'redrive_dlq_pruned_total', '{}'),
    ('leases_lost', 'redrive_leases_lost_total', '{}'),
    ('refused', 'redrive_results_refused_total', '{}'),
    ('duplicates', 'redrive_enqueue_duplicates_total', '{}'),
    ('chore_failed', 'redrive_chore_failures_total', '{chore}'),
    ('letters', 'redrive_dlq_letters', '{state}'),
    ('schedule_ticks', 'redrive_schedule_ticks_total', '{outcome}'),
    ('regressed', 'redrive_group_regressions_total', '{}'),
    -- Live jobs are enqueued + returned - succeeded - ended.
    ('returned', NULL, '{}'),
    ('ended', NULL, '{}');
INSERT INTO redrive.counter_keys (key, metric, labels, bounds) VALUES
    ('wait', 'redrive_job_queue_wait_seconds', '{}',
     '{0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600}'),
    ('run', 'redrive_job_run_seconds', '{outcome}',
     '{0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600}'),
    ('end_to_end', 'redrive_job_end_to_end_seconds', '{}',
     '{0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600,21600,86400}'),
    ('attempts_done', 'redrive_job_attempts_to_success', '{}', '{1,2,3,4,5,7,10,15,20,25}'),
    ('attempts_dead', 'redrive_job_attempts_at_dead_letter', '{}', '{1,2,3,4,5,7,10,15,20,25}'),
    ('retry_delay', 'redrive_job_retry_delay_seconds', '{}',
     '{1,2,5,10,30,60,300,900,3600,21600,86400}'),
    ('chore', 'redrive_chore_seconds', '{chore}', '{0.1,1,5,30}'),
    ('residence', 'redrive_dlq_residence_seconds', '{exit}',
     '{60,600,3600,21600,86400,259200,604800,1209600,2592000}');

-- The child of `metric_deltas` that new rows go to. Only a turn of its ring sets it. A sequence, as for `ring`.
CREATE SEQUENCE redrive.metric_ring_position AS smallint MINVALUE 0 MAXVALUE 2 START 0;

-- Counts that are not folded yet. Each counting statement inserts one row per queue, so a crash cannot
-- separate the two and a rollback removes both. Inserts never wait for each other. The arrays are parallel;
-- an array without values is NULL. Three children take turns like those of `jobs`: folded rows are deleted,
-- and TRUNCATE returns their space even while a transaction holds the xmin horizon.
CREATE TABLE redrive.metric_deltas (
    segment  smallint    NOT NULL DEFAULT coalesce(pg_sequence_last_value('redrive.metric_ring_position'), 0),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue    text        COLLATE "C" NOT NULL,
    keys    text[]      COLLATE "C" NOT NULL,
    labels   text[]      COLLATE "C",
    causes   text[]      COLLATE "C",
    buckets  smallint[],
    counts   redrive.counts NOT NULL,
    sums     double precision[]
) PARTITION BY LIST (segment);

COMMENT ON COLUMN redrive.metric_deltas.labels IS 'The first label after the queue.';
COMMENT ON COLUMN redrive.metric_deltas.causes IS 'The second label after the queue.';
COMMENT ON COLUMN redrive.metric_deltas.buckets IS 'For histograms: the number of bounds below the observed value.';

DO $$
BEGIN
    FOR each_segment IN 0..2 LOOP
        EXECUTE format('CREATE TABLE redrive.metric_deltas_%s PARTITION OF redrive.metric_deltas FOR VALUES IN (%1$s)',
                       each_segment);
        EXECUTE format('ALTER TABLE redrive.metric_deltas_%s REPLICA IDENTITY FULL', each_segment);
    END LOOP;
END
$$;

-- The totals: one row per counter, and one per bucket of a histogram.
CREATE TABLE redrive.metric_values (
    key     text             COLLATE "C" NOT NULL,
    queue   text             COLLATE "C" NOT NULL,
    label   text             COLLATE "C" NOT NULL DEFAULT '',
    cause   text             COLLATE "C" NOT NULL DEFAULT '',
    bucket  smallint         NOT NULL DEFAULT 0,
    value   bigint           NOT NULL,
    sum     double precision NOT NULL DEFAULT 0,
    last_at timestamptz      NOT NULL,
    PRIMARY KEY (key, queue, label, cause, bucket)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

COMMENT ON COLUMN redrive.metric_values.sum IS 'For a histogram: the sum of the values that were observed in the bucket.';

-- The names that are published: the first 100 queues, and for each the first 20 kinds, error classes and sources.
-- They are kept forever, because a counter whose name disappears looks like a decrease. The others are summed under
-- `__other__`.
CREATE TABLE redrive.metric_slots (
    label text COLLATE "C" NOT NULL CHECK (label IN ('queue', 'kind', 'error_class', 'source')),
    queue text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    PRIMARY KEY (label, queue, name)
);

COMMENT ON COLUMN redrive.metric_slots.queue IS 'The queue of a kind, an error class or a source; empty for a queue.';
