-- Purpose: deletes the row of a worker that has stopped.
-- Called by: worker/renewer.rs, at the end of a stop.
-- $1 uuid worker
-- Locks: the worker's row.
-- Index relied on: the primary key of workers; leases_for_reap.
-- Rows: none. If no row was deleted, the worker still has leases or its row is already gone.
DELETE FROM redrive.workers w
WHERE w.worker_id = $1
    AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.worker_id = $1)
