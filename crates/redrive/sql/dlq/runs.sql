-- Purpose: lists redrive runs with exact counts, the newest first.
-- $1 bigint    run; NULL: all
-- $2 bigint    maximum number of runs
-- $3 boolean   whether only those that have not ended
-- Index relied on: the primary key of redrive_runs, or redrive_runs_unfinished; run_deltas_by_run.
-- Rows: the runs. Zero rows: no run matches.
SELECT r.id, r.state, r.filter, r.person, r.reason, r.forced, r.to_queue, r.priority, r.max_attempts,
       r.delay_ms AS delay, r.rate, r.canary, r.tolerated, r.stage, r.stage_to, r.is_driven, r.total, r.cursor AS tried, r.sent, r.skipped,
       r.recovered, r.died_alike, r.died_differently, r.still_running, r.halted_because,
       r.approved_by, r.approved_at,
       r.created_at, r.started_at, r.ended_at
FROM redrive.runs r
WHERE ($1::bigint IS NULL OR r.id = $1)
    AND (NOT $3::boolean OR r.state IN ('unapproved', 'running', 'paused', 'halted'))
ORDER BY r.id DESC
LIMIT $2
