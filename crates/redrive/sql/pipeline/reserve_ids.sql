-- Purpose: takes ids from the sequence for a bulk enqueue, returns the current segment and time, and
--          counts the jobs. The jobs are stored in the same transaction, so the count is exact.
-- Called by: pipeline/copy.rs.
-- $1 bigint    number of ids
-- $2 text      queue
-- Locks: none.
-- Index relied on: none.
-- Rows: always one.
WITH counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $2, '{enqueued}', ARRAY[$1::bigint]
    FROM redrive.metric_ring m
)
SELECT (SELECT r.segment FROM redrive.ring r) AS segment,
       clock_timestamp() AS now,
       array_agg(nextval('redrive.job_id')) AS ids
FROM generate_series(1, $1::bigint)
