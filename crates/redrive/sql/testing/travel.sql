-- Purpose: lets time pass for the jobs of a test: delayed ones are due earlier, windows of unique keys close earlier, and
--          all jobs and their outages are older.
-- $1 bigint    milliseconds
-- Locks: the rows it changes.
-- Index relied on: none; a test has few jobs.
-- Rows: none.
WITH moved AS MATERIALIZED (
    SELECT $1::bigint * interval '1 millisecond' AS by
),
delayed AS (
    UPDATE redrive.jobs_delayed d
    SET run_at = d.run_at - m.by, enqueued_at = d.enqueued_at - m.by, meta.outage_since = (d.meta).outage_since - m.by
    FROM moved m
),
ready AS (
    UPDATE redrive.jobs j
    SET meta.ready_at = (j.meta).ready_at - m.by, meta.outage_since = (j.meta).outage_since - m.by,
        enqueued_at = j.enqueued_at - m.by
    FROM moved m
)
UPDATE redrive.unique_windows w
SET ends_at = w.ends_at - m.by
FROM moved m
