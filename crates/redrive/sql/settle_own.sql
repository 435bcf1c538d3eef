-- Purpose: settles a job as done in the transaction of its own handler: its writes and the end
--          of the job commit together or not at all.
-- Called by: worker/handlers.rs, before the handler runs.
-- $1 uuid      lease; such a job has one to itself
-- $2 bigint    job
-- Locks: the lease row, until the handler's transaction ends: reap and release leave it alone.
-- Index relied on: the primary keys of leases and dead_letters.
-- Rows: one when the lease is held. Zero rows: it is lost.
WITH ended AS (
    DELETE FROM redrive.leases l WHERE l.lease_id = $1 RETURNING l.lease_id
),
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    FROM ended
    WHERE l.id = $2 AND l.state = 'redriving'
)
SELECT e.lease_id FROM ended e
