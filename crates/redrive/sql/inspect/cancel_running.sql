-- Purpose: asks the handler of a running job to stop, as cancel.sql does, and writes the audit.
-- Called by: inspect/bulk.rs.
-- $1 bigint    id
-- $2 text      reason         $3 text  operator
-- Locks: the row of the lease.
-- Index relied on: none; it scans leases.
-- Rows: one. Zero rows: no worker runs the job.
WITH asked AS (
    UPDATE redrive.leases l
    SET cancelled = l.cancelled || $1::bigint
    WHERE $1 = ANY (l.ids) AND $1 <> ALL (l.done)
    RETURNING l.worker_id
)
SELECT pg_notify('redrive_cancel', a.worker_id::text),
       redrive.record_act('cancel_running_jobs', $3, $2, jsonb_build_object('ids', jsonb_build_array($1)), 1)
FROM asked a
