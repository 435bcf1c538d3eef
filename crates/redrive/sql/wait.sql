-- Purpose: says whether a worker waits for work: enqueues notify only when one does.
-- Called by: worker/fetch.rs, when the worker runs dry and when it has been busy for a while.
-- $1 uuid worker   $2 boolean waiting
-- Locks: the worker's row.
-- Index relied on: the primary key of workers.
-- Rows: none. A worker without a row (forgotten while it was away) has one again at its renewal.
UPDATE redrive.workers w
SET waiting = $2
WHERE w.worker_id = $1 AND w.waiting <> $2
