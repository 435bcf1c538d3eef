-- Purpose: tells the handler of a running job that the job is cancelled. redrive.cancel_job makes it sure.
-- $1 bigint    id
-- Locks: none, so a handler learns of it however long its lease is locked.
-- Index relied on: none; it scans leases.
-- Rows: one. Zero rows: no worker runs the job.
SELECT pg_notify('redrive_cancel', concat(l.worker_id, ' ', $1::bigint)) IS NULL AS told
FROM redrive.leases l
WHERE $1 = ANY (l.ids) AND $1 <> ALL (l.done)
