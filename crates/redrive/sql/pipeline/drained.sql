-- Purpose: checks whether a queue has no ready, delayed or leased job.
-- Called by: pipeline/queue.rs.
-- $1 text      queue
-- Locks: none.
-- Index relied on: jobs_for_claim, jobs_delayed_for_promote; leases is small.
-- Rows: always one.
SELECT redrive.is_drained($1) AS drained
