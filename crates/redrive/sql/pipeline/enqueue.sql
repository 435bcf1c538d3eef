-- Purpose: stores jobs in one queue and notifies its workers if one is waiting. Ready jobs go to the
--          current segment, delayed jobs to jobs_delayed.
-- Called by: pipeline/insert.rs, for up to 1,000 jobs, on the library's or the caller's connection.
-- $1 text      queue
-- $2 text[]    kinds
-- $3 json[]    payloads
-- $4 bigint[]  delays in milliseconds; 0: ready at once
-- $5 smallint[] priorities
-- $6 integer[] maximum attempts
-- Locks: the rows it inserts. NOTIFY takes the server's notification lock at commit, but only if a
--        worker is waiting.
-- Rows: the new ids, in the order of the arrays. Never zero unless the arrays are empty.
WITH incoming AS MATERIALIZED (
    SELECT nextval('redrive.job_id') AS id, n.kind, n.payload, n.delay_ms, n.priority,
           n.max_attempts, n.ordinal
    FROM unnest($2::text[], $3::json[], $4::bigint[], $5::smallint[], $6::integer[])
        WITH ORDINALITY AS n (kind, payload, delay_ms, priority, max_attempts, ordinal)
),
ready AS (
    INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta)
    SELECT (SELECT r.segment FROM redrive.ring r), i.id, -2 * i.priority, $1::text, i.kind, i.payload,
           redrive.new_meta(i.priority, i.max_attempts)
    FROM incoming i
    WHERE i.delay_ms = 0
),
delayed AS (
    INSERT INTO redrive.jobs_delayed (id, run_at, queue, kind, payload, meta)
    SELECT i.id, clock_timestamp() + i.delay_ms * interval '1 millisecond', $1::text, i.kind, i.payload,
           redrive.new_meta(i.priority, i.max_attempts)
    FROM incoming i
    WHERE i.delay_ms > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, counts) VALUES ($1, '{enqueued}', ARRAY[cardinality($2::text[])])
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', $1)
    FROM redrive.workers w
    WHERE w.queue = $1 AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
)
SELECT i.id, (SELECT count(*) FROM woken) AS woken
FROM incoming i
ORDER BY i.ordinal
