-- Purpose: compares the counters with the rows, and stores the drift.
-- Called by: counters.rs.
-- Locks: ACCESS SHARE on jobs and the counters, so that nothing is truncated meanwhile.
-- Index relied on: none: it reads every job and letter.
-- Rows: one for each queue and set (live, dlq): how many rows, how many by the totals, and the drift.
SELECT a.queue, a.set, a.rows, a.total, a.drift
FROM redrive.audit_counters() AS a
