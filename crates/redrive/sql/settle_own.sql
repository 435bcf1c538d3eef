-- Purpose: settles a job as done in the transaction of its own handler: its writes and the end
--          of the job commit together or not at all.
-- Called by: worker/handlers.rs, before the handler runs.
-- $1 uuid      lease; such a job has one to itself
-- $2 bigint    job
-- $3 smallint  the bucket of its attempts
-- $4 double precision how long it had waited for its claim, in seconds
-- $5 smallint  the bucket of that
-- Locks: the lease row, until the handler's transaction ends: reap and release leave it alone.
-- Index relied on: the primary keys of leases and dead_letters.
-- Rows: one when the lease is held. Zero rows: it is lost.
WITH ended AS (
    DELETE FROM redrive.leases l WHERE l.lease_id = $1 RETURNING l.lease_id, l.queue, l.jobs
),
-- How long the handler runs is counted when its transaction commits, by count_own_run.
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, began_at, born_at, words, labels, buckets, counts, sums)
    SELECT m.segment, e.queue, clock_timestamp(), (e.jobs[1]).enqueued_at, '{succeeded,attempts_done,wait}',
           ARRAY[(e.jobs[1]).kind, NULL, NULL],
           ARRAY[NULL, $3::smallint, $5::smallint],
           '{1,1,1}', ARRAY[NULL, (e.jobs[1]).attempt, $4::double precision]
    FROM ended e
    CROSS JOIN redrive.metric_ring m
),
-- The state in words that no index has; see settle.sql.
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    FROM ended
    WHERE l.id = $2 AND l.state || '' = 'redriving'
)
SELECT e.lease_id FROM ended e
