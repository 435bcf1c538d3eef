-- Purpose: stores one job that is ready at once and has no unique key: the common case. As
-- enqueue.sql does it, but a statement with nothing else in it starts in half the time.
-- Called by: enqueue.rs, on the library's or the caller's connection.
-- $1 text      queue
-- $2 text      kind
-- $3 jsonb     payload
-- $4 smallint  priority
-- $5 integer   attempts allowed
-- Locks: row locks on what it inserts. NOTIFY takes the server's notification lock at commit,
--        only when a worker waits.
-- Index relied on: none.
-- Rows: the new id. Never zero.
WITH ready AS (
    INSERT INTO redrive.jobs (segment, queue, kind, payload, priority, max_attempts)
    SELECT r.segment, $1::text, $2::text, $3::jsonb, $4::smallint, $5::integer
    FROM redrive.ring r
    RETURNING id
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, $1, '{enqueued}', '{1}'
    FROM redrive.metric_ring m
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', $1)
    FROM redrive.workers w
    WHERE w.queue = $1 AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
)
SELECT i.id, (SELECT count(*) FROM woken) AS woken
FROM ready i
