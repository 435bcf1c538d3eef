-- Purpose: returns the live jobs of a kind, for the test of a program that enqueues them.
-- $1 text      kind
-- Index relied on: none; a test has few jobs.
-- Rows: the jobs, in the order of their ids. Zero rows: there is none.
SELECT j.id, j.queue, j.payload, j.priority, j.max_attempts, j.state = 'delayed' AS is_delayed, j.run_at,
       j.unique_key, j.group_key, j.headers
FROM redrive.live_jobs j
WHERE j.kind = $1
ORDER BY j.id
