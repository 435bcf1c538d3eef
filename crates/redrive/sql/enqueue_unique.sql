-- Purpose: stores jobs of one queue of which some have a unique key: such a job is stored only if
--          no live job of the queue has its key. Jobs without keys go through enqueue.sql.
-- Called by: enqueue.rs, up to 1,000 jobs, on the library's or the caller's connection.
-- $1 text      queue
-- $2 text[]    kinds
-- $3 jsonb[]   payloads
-- $4 bigint[]  delays in milliseconds; 0: ready at once
-- $5 smallint[] priorities
-- $6 integer[] attempts allowed
-- $7 text[]    unique keys; NULL: none
-- Locks: row locks on what it inserts, and on the keys; it waits for a transaction that is at the
--        same key. NOTIFY takes the server's notification lock at commit, only when a worker waits.
-- Index relied on: the primary key of unique_keys.
-- Rows: the id of each job, or of the live job that has its key, in the order of the arrays, and
--       whether it was stored.
WITH incoming AS MATERIALIZED (
    SELECT nextval('redrive.job_id') AS id, n.kind, n.payload, n.delay_ms, n.priority,
           n.max_attempts, n.unique_key, n.ordinal
    FROM unnest($2::text[], $3::jsonb[], $4::bigint[], $5::smallint[], $6::integer[], $7::text[])
        WITH ORDINALITY AS n (kind, payload, delay_ms, priority, max_attempts, unique_key, ordinal)
),
-- In the order of the keys, so that two of these statements never wait for each other. The
-- update changes nothing: it answers who has the key, also when that one came just now.
held AS (
    INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
    SELECT DISTINCT ON (i.unique_key COLLATE "C") $1::text, i.unique_key, i.id
    FROM incoming i
    WHERE i.unique_key IS NOT NULL
    ORDER BY i.unique_key COLLATE "C", i.ordinal
    ON CONFLICT (queue, key) DO UPDATE SET key = excluded.key
    RETURNING k.key, k.job_id
),
placed AS MATERIALIZED (
    SELECT coalesce(h.job_id, i.id) AS id, i.kind, i.payload, i.delay_ms, i.priority,
           i.max_attempts, i.unique_key, i.ordinal, h.job_id IS NULL OR h.job_id = i.id AS is_new
    FROM incoming i
    LEFT JOIN held h ON h.key = i.unique_key
),
ready AS (
    INSERT INTO redrive.jobs (segment, id, queue, kind, payload, priority, max_attempts, unique_key)
    SELECT r.segment, p.id, $1, p.kind, p.payload, p.priority, p.max_attempts, p.unique_key
    FROM placed p
    CROSS JOIN redrive.ring r
    WHERE p.is_new AND p.delay_ms = 0
),
delayed AS (
    INSERT INTO redrive.jobs_delayed
        (id, run_at, queue, kind, payload, priority, max_attempts, unique_key)
    SELECT p.id, clock_timestamp() + p.delay_ms * interval '1 millisecond', $1, p.kind, p.payload,
           p.priority, p.max_attempts, p.unique_key
    FROM placed p
    WHERE p.is_new AND p.delay_ms > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
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
        AND EXISTS (SELECT FROM placed p WHERE p.is_new)
    LIMIT 1
)
SELECT p.id, p.is_new, (SELECT count(*) FROM woken) AS woken
FROM placed p
ORDER BY p.ordinal
