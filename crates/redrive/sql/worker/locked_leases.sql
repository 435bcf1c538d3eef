-- Purpose: counts the leases of a worker that its release has skipped, because other sessions have locked them: a settle
--          whose answer was lost, a handler's transaction that commits, or a worker that reaps them.
-- Called by: worker/settler/releases.rs, at the end of a stop.
-- $1 uuid      worker
-- Index relied on: leases_for_reap.
-- Rows: always one.
SELECT count(*) AS leases
FROM redrive.leases l
WHERE l.worker_id = $1
