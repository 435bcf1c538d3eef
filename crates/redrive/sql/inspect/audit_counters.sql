-- Purpose: compares the counters with the stored rows, and stores the drift.
-- Called by: inspect/counters.rs.
-- Locks: the row of the task in exclusive_tasks; ACCESS SHARE on jobs and the counters, which prevents
--        truncation during the comparison.
-- Index relied on: none; it reads every job and letter.
-- Rows: one per queue and set (live, dlq): the number of rows, the total of the counters, the drift.
SELECT a.queue, a.set, a.rows, a.total, a.drift
FROM redrive.audit_counters() AS a
