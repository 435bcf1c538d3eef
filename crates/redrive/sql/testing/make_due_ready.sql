-- Purpose: moves the due jobs of some kinds from jobs_delayed to jobs, for a test that runs them.
-- $1 text[]    kinds; NULL: all
-- Locks: the rows of the jobs; rows locked by other sessions are skipped.
-- Index relied on: none; a test has few jobs.
-- Rows: one: the number of jobs moved.
SELECT redrive.make_ready(coalesce(array_agg(d.tid), '{}')) AS moved
FROM (
    SELECT j.ctid AS tid
    FROM redrive.jobs_delayed j
    WHERE j.run_at <= clock_timestamp() AND ($1::text[] IS NULL OR j.kind = ANY ($1::text[]))
    ORDER BY j.run_at, j.id
    FOR UPDATE SKIP LOCKED
) d
