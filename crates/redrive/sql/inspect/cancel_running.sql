-- Purpose: asks the handler of a running job to stop, as cancel.sql does, and writes the audit.
-- Called by: inspect/bulk.rs.
-- $1 bigint    id
-- $2 text      reason         $3 text  operator
-- Locks: the row of the lease, unless another session has locked it.
-- Index relied on: none; it scans leases.
-- Rows: one. Zero rows: no worker runs the job.
WITH asked AS (
    SELECT l.worker_id
    FROM redrive.leases l
    WHERE $1 = ANY (l.ids) AND $1 <> ALL (l.done)
),
marked AS (
    UPDATE redrive.leases l
    SET cancelled = l.cancelled || $1::bigint
    WHERE l.lease_id = ANY (ARRAY(
        SELECT k.lease_id FROM redrive.leases k
        WHERE $1 = ANY (k.ids) AND $1 <> ALL (k.done)
        FOR UPDATE SKIP LOCKED))
)
SELECT pg_notify('redrive_cancel', concat(a.worker_id, ' ', $1)),
       redrive.record_act('cancel_running_jobs', $3, $2, jsonb_build_object('ids', jsonb_build_array($1)), 1)
FROM asked a
