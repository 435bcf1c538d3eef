-- Purpose: deletes the rows of a worker that has stopped.
-- Called by: worker/renewer.rs, at the end of a stop.
-- $1 uuid[] rows of the worker
-- Locks: the worker's rows.
-- Index relied on: the primary key of workers; leases_for_reap.
-- Rows: none. A row that was not deleted still has leases, or is already gone.
DELETE FROM redrive.workers w
WHERE w.worker_id = ANY ($1)
    AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.worker_id = w.worker_id)
