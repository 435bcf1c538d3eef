-- Purpose: whether a queue holds no live job: none ready, none delayed, none leased.
-- Called by: queue.rs.
-- $1 text      queue
-- Locks: none.
-- Index relied on: jobs_for_claim, jobs_delayed_for_promote; leases is small.
-- Rows: always one.
SELECT redrive.is_drained($1) AS drained
