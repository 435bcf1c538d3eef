-- Purpose: takes ids off the sequence for a bulk enqueue, tells the current segment and time, and
--          counts the jobs: the same transaction stores all of them, or none and no count.
-- Called by: copy.rs.
-- $1 bigint    how many
-- $2 text      queue
-- Locks: none.
-- Index relied on: none.
-- Rows: always one.
WITH counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, $2, '{enqueued}', ARRAY[$1::bigint]
    FROM redrive.metric_ring m
)
SELECT (SELECT r.segment FROM redrive.ring r) AS segment,
       clock_timestamp() AS now,
       array_agg(nextval('redrive.job_id')) AS ids
FROM generate_series(1, $1::bigint)
