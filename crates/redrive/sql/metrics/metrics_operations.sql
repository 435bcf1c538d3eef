-- Purpose: returns the metrics of workers, breakers, pauses, failure groups and redrive runs.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: ACCESS SHARE on the tables that it reads and compaction rewrites.
-- Index relied on: groups_by_queue, groups_regressed, redrive_runs_unfinished, run_deltas_by_run; workers, breakers
--                  and queue_pauses are small; redrive_runs has one row per run.
-- Rows: one per series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_operations() m
