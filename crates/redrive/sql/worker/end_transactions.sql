-- Purpose: ends the transactions of handlers that outlast the stop of their worker, and waits until the
--          server has rolled them back. release.sql then finds their leases.
-- Called by: worker/settler/releases.rs, at the end of a stop.
-- $1 uuid[]    leases of these handlers
-- Locks: the lease rows, which the handlers' transactions hold (see settle_own.sql). The wait is bounded by
--        the lock timeout of the session.
-- Index relied on: the primary key of leases.
-- Rows: the leases to release. A lease without a row is settled or lost: its handler committed first, or
--       another worker reaped it. Zero rows: there is nothing to release.
WITH terminated AS MATERIALIZED (
    SELECT pg_terminate_backend(t.pid)
    FROM redrive.leases l
    -- A deleted row that is not committed names the transaction that deleted it. Others that wait for its end ask for
    -- a weaker lock on it.
    JOIN pg_locks t ON t.transactionid = l.xmax AND t.mode = 'ExclusiveLock'
    WHERE l.lease_id = ANY ($1::uuid[])
)
SELECT l.lease_id
FROM (SELECT count(*) FROM terminated) AS signalled
JOIN redrive.leases l ON l.lease_id = ANY ($1::uuid[])
FOR UPDATE OF l
