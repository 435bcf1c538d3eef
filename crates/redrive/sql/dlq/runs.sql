-- Purpose: lists redrive runs with exact counts, the newest first.
-- $1 bigint    run; NULL: all
-- $2 bigint    maximum number of runs
-- $3 boolean   whether only those that have not ended
-- Index relied on: the primary key of redrive_runs, or redrive_runs_unfinished; run_deltas_by_run.
-- Rows: the runs. Zero rows: no run matches.
SELECT r.*, r.delay_ms AS delay, r.cursor AS tried
FROM redrive.runs r
WHERE ($1::bigint IS NULL OR r.id = $1)
    AND (NOT $3::boolean OR r.state IN ('unapproved', 'running', 'paused', 'halted'))
ORDER BY r.id DESC
LIMIT $2
