-- Purpose: marks a running job as cancelled, so that whoever ends its lease does not return it, or finds
--          that it died because its handler was told, and writes the audit.
-- $1 bigint    id
-- $2 text      operator       $3 text  reason
-- Locks: the row of the lease. It waits for a session that settles or reaps the lease, because only
--        that one knows where the job is next.
-- Index relied on: none; it scans leases. The primary key of dead_letters.
-- Rows: one. Zero rows: no worker runs the job, and it did not die as cancelled.
WITH running AS (
    SELECT l.lease_id FROM redrive.leases l WHERE $1::bigint = ANY (l.ids) AND $1 <> ALL (l.done) FOR UPDATE
),
-- Once, however often the job is cancelled.
marked AS (
    UPDATE redrive.leases l
    SET cancelled = l.cancelled || $1
    FROM running r
    WHERE l.lease_id = r.lease_id AND $1 <> ALL (l.cancelled)
),
-- The job was live when its handler was told, so an open letter is younger.
ended AS (
    SELECT d.id
    FROM redrive.dead_letters d
    WHERE d.id = $1 AND d.state = 'open' AND d.cause = 'manual'
)
SELECT redrive.record_act('cancel_running_jobs', $2, $3, jsonb_build_object('ids', jsonb_build_array($1)), 1) AS audit_id
FROM (SELECT FROM running UNION ALL SELECT FROM ended) cancelled
