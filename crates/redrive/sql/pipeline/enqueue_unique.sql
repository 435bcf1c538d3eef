-- Purpose: stores jobs in one queue when at least one has a unique key, headers or a group. A job with a key is stored only
--          if no live job of the queue holds that key and no window of the key is open. Otherwise it may change the
--          payload, the time or both of the job that holds the key, if that waits and has the same kind; a running job
--          is never changed. Other batches use enqueue.sql.
-- Called by: pipeline/insert.rs, for up to 1,000 jobs, on the library's or the caller's connection.
-- $1 text      queue
-- $2 text[]    kinds
-- $3 json[]    payloads
-- $4 bigint[]  delays in milliseconds; 0: ready at once
-- $5 smallint[] priorities
-- $6 integer[] maximum attempts
-- $7 text[]    unique keys; NULL: none
-- $8 jsonb[]   headers; NULL: none
-- $9 text[]    groups; NULL: none
-- $10 text[]   what to replace: payload, time or both; NULL: nothing
-- $11 bigint[] windows of the keys in milliseconds; NULL: none
-- Locks: the rows, keys and windows it inserts, the expired windows of one page, and the rows of the waiting jobs it changes, in the order of their keys. It
--        waits for a session that holds such a row, and for a transaction that is writing the same key, but locks
--        no key of another job: a worker settles without waiting for it, and claims skip the rows. NOTIFY takes
--        the server's notification lock at commit, but only if a worker is waiting.
-- Index relied on: the primary keys of unique_keys and unique_windows; to replace, also that of jobs_delayed, and
--                  jobs_for_claim. It scans leases if the job to replace does not wait.
-- Rows: per job, in the order of the arrays: its id, or the id of the job that holds its key or opened its window,
--       whether the job is new, and whether the live job was changed.
WITH incoming AS MATERIALIZED (
    SELECT nextval('redrive.job_id') AS id, n.kind, n.payload, n.delay_ms, n.priority,
           n.max_attempts, n.unique_key, n.headers, n.group_key, n.change, n.window_ms, n.ordinal
    FROM unnest($2::text[], $3::json[], $4::bigint[], $5::smallint[], $6::integer[], $7::text[], $8::jsonb[],
                $9::text[], $10::text[], $11::bigint[])
        WITH ORDINALITY
        AS n (kind, payload, delay_ms, priority, max_attempts, unique_key, headers, group_key, change,
              window_ms, ordinal)
),
held AS MATERIALIZED (
    SELECT k.key, k.job_id, k.replaced
    FROM (
        SELECT array_agg(i.unique_key) AS keys, array_agg(i.id) AS ids, array_agg(i.kind) AS kinds,
               array_agg(i.change) AS changes, array_agg(i.delay_ms) AS delays,
               array_agg(CASE WHEN i.change IS NOT NULL THEN i.payload END) AS payloads,
               array_agg(i.priority::integer) AS priorities, array_agg(i.window_ms) AS windows,
               array_agg(CASE WHEN i.change IS NOT NULL THEN i.headers END) AS headers
        FROM incoming i
        WHERE i.unique_key IS NOT NULL
    ) w
    CROSS JOIN LATERAL redrive.take_keys(
        $1, w.keys, w.ids, w.windows, w.kinds, w.changes, w.payloads, w.delays, w.priorities, w.headers) k
),
placed AS MATERIALIZED (
    SELECT coalesce(h.job_id, i.id) AS id, i.kind, i.payload, i.delay_ms, i.priority,
           i.max_attempts, i.unique_key, i.headers, i.group_key, i.ordinal, h.job_id IS NULL OR h.job_id = i.id AS is_new,
           -- Several jobs of one call may have the same key; the first one decides.
           coalesce(h.replaced, false)
               AND i.ordinal = min(i.ordinal) OVER (PARTITION BY i.unique_key) AS replaced
    FROM incoming i
    LEFT JOIN held h ON h.key = i.unique_key
),
ready AS (
    INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta)
    SELECT CASE WHEN p.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.entry_segment($1, p.group_key, p.id) END, p.id, -2 * p.priority, $1, p.kind, p.payload,
           redrive.new_meta(p.priority, p.max_attempts, p.unique_key, p.headers, p.group_key)
    FROM placed p
    WHERE p.is_new AND p.delay_ms = 0
),
delayed AS (
    INSERT INTO redrive.jobs_delayed (id, run_at, queue, kind, payload, meta)
    SELECT p.id, clock_timestamp() + p.delay_ms * interval '1 millisecond', $1, p.kind, p.payload,
           redrive.new_meta(p.priority, p.max_attempts, p.unique_key, p.headers, p.group_key)
    FROM placed p
    WHERE p.is_new AND p.delay_ms > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $1, '{enqueued,duplicates}',
           ARRAY[count(*) FILTER (WHERE p.is_new), count(*) FILTER (WHERE NOT p.is_new)]
    FROM placed p
    CROSS JOIN redrive.metric_ring m
    GROUP BY m.segment
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', $1)
    FROM redrive.workers w
    WHERE w.queue = $1 AND w.waiting AND w.expires_at > statement_timestamp()
        AND EXISTS (SELECT FROM placed p WHERE p.is_new OR p.replaced)
    LIMIT 1
)
SELECT p.id, p.is_new, p.replaced, (SELECT count(*) FROM woken) AS woken
FROM placed p
ORDER BY p.ordinal
