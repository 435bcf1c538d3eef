-- Purpose: takes ids from the sequence for a bulk enqueue, returns the current segment, the time in microseconds since
--          2000 and the encoded options of jobs, and counts the jobs. They are stored in the same transaction, so the
--          count is exact.
-- $1 bigint    number of ids
-- $2 text      queue
-- $3 smallint[] priorities                 $4 integer[] maximum attempts of jobs, each pair once
-- Rows: always one.
WITH counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, counts) VALUES ($2, '{enqueued}', ARRAY[$1::bigint])
)
SELECT (SELECT r.segment FROM redrive.ring r) AS segment,
       (extract(epoch FROM clock_timestamp() - timestamptz '2000-01-01 00:00:00Z') * 1000000)::bigint AS now_micros,
       ARRAY(
           SELECT record_send(redrive.new_meta(o.priority, o.max_attempts))
           FROM unnest($3::smallint[], $4::integer[]) WITH ORDINALITY AS o (priority, max_attempts, place)
           ORDER BY o.place
       ) AS metas,
       array_agg(nextval('redrive.job_id')) AS ids
FROM generate_series(1, $1::bigint)
