-- Purpose: takes ids from the sequence for a bulk enqueue, returns the current segment, the time and the types of
--          the attributes of job_meta, which a later version may have extended, and counts the jobs. The jobs are
--          stored in the same transaction, so the count is exact.
-- $1 bigint    number of ids
-- $2 text      queue
-- Index relied on: that of pg_attribute.
-- Rows: always one.
WITH counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, counts) VALUES ($2, '{enqueued}', ARRAY[$1::bigint])
)
SELECT (SELECT r.segment FROM redrive.ring r) AS segment,
       clock_timestamp() AS now,
       (SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'redrive.job_meta'::regclass AND NOT a.attisdropped) AS meta_types,
       array_agg(nextval('redrive.job_id')) AS ids
FROM generate_series(1, $1::bigint)
