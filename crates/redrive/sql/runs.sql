-- Purpose: lists redrive runs with their exact numbers, the newest first.
-- Called by: redrive/run.rs.
-- $1 bigint    only this one; NULL: all
-- $2 bigint    how many at most
-- Locks: none.
-- Index relied on: the primary key of redrive_runs, run_deltas_by_run.
-- Rows: the runs. Zero rows: there is none.
SELECT r.id, r.state, r.filter, r.person, r.why, r.forced, r.to_queue, r.priority, r.max_attempts,
       r.rate, r.canary, r.stage, r.stage_to, r.is_driven, r.total, r.cursor, r.sent, r.skipped,
       r.recovered, r.died_alike, r.died_differently, r.still_running, r.halted_because,
       r.created_at, r.started_at, r.ended_at
FROM redrive.runs r
WHERE $1::bigint IS NULL OR r.id = $1
ORDER BY r.id DESC
LIMIT $2
