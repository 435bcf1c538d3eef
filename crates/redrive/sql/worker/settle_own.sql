-- Purpose: settles a job as done in its handler's transaction, so that the handler's writes and the
--          end of the job commit or roll back together.
-- Called by: worker/handlers.rs, before the handler runs.
-- $1 uuid      lease, which holds only this job
-- $2 bigint    job
-- $3 smallint  histogram bucket of its attempts
-- $4 double precision time it waited to be claimed, in seconds
-- $5 smallint  histogram bucket of that time
-- Locks: the lease row, until the handler's transaction ends; reap.sql and release.sql skip it.
-- Index relied on: the primary keys of leases and dead_letters.
-- Rows: one if the lease is held. Zero rows: the lease is lost.
WITH ended AS (
    DELETE FROM redrive.leases l WHERE l.lease_id = $1
    RETURNING l.lease_id, l.queue, l.kinds[1] AS kind, l.enqueued_at[1] AS enqueued_at,
              coalesce(l.attempts[1], 1) AS attempt
),
-- The trigger count_own_run counts the handler's duration when the transaction commits.
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, began_at, born_at, keys, labels, buckets, counts, sums)
    SELECT m.segment, e.queue, clock_timestamp(), e.enqueued_at, '{succeeded,attempts_done,wait}',
           ARRAY[e.kind, NULL, NULL],
           ARRAY[NULL, $3::smallint, $5::smallint],
           '{1,1,1}', ARRAY[NULL, e.attempt, $4::double precision]
    FROM ended e
    CROSS JOIN redrive.metric_ring m
),
-- The expression on the state rules out an index on it; see settle.sql.
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    FROM ended
    WHERE l.id = $2 AND l.state || '' = 'redriving'
)
-- If the worker's host vanishes, the server ends the transaction, with its lock on the lease; see
-- db/session.rs.
SELECT e.lease_id,
       set_config('tcp_keepalives_idle', '30s', true),
       set_config('tcp_keepalives_interval', '10s', true),
       set_config('tcp_keepalives_count', '3', true),
       set_config('tcp_user_timeout', '60s', true)
FROM ended e
