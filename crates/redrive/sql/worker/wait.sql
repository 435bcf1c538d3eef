-- Purpose: records whether a worker is waiting for work. An enqueue notifies only if one is waiting.
-- Called by: worker/fetcher.rs, when the worker runs out of jobs and after it has been busy for a while.
-- $1 uuid worker   $2 boolean waiting
-- Locks: the worker's row.
-- Index relied on: the primary key of workers.
-- Rows: none. If the worker's row was deleted while it was unreachable, the next renewal inserts it.
UPDATE redrive.workers w
SET waiting = $2
WHERE w.worker_id = $1 AND w.waiting <> $2
