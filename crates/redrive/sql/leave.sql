-- Purpose: takes a worker that stopped off the list.
-- Called by: worker/pulse.rs, at the end of a stop.
-- $1 uuid worker
-- Locks: the worker's row.
-- Index relied on: the primary key of workers.
-- Rows: none; zero deleted: it was reaped.
DELETE FROM redrive.workers w
WHERE w.worker_id = $1
    AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.worker_id = $1)
