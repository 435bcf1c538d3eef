-- Purpose: whether a queue holds no live job: none ready, none delayed, none leased.
-- Called by: queue.rs.
-- $1 text      queue
-- Locks: none.
-- Index relied on: jobs_for_claim, jobs_delayed_for_promote; leases is small.
-- Rows: always one.
SELECT NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = $1)
    AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = $1)
    AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = $1) AS drained
