-- Purpose: gives some of the jobs of a lease back, which nobody began and which wait behind slow ones:
--          each goes into `jobs` again with its attempt refunded, and counts as settled in the lease.
-- Called by: settle.rs, by a worker's settler, for a lease of which others are left.
-- $1 uuid      lease
-- $2 bigint[]  ids of the jobs, not all that are left of the lease
-- Locks: the lease row. NOTIFY takes the server's notification lock at commit, only when another
--        worker waits.
-- Index relied on: the primary key of leases.
-- Rows: the jobs given back. Zero rows: nothing is given back. The lease is lost, or these jobs have
--       been given back before, or an operator cancelled a job of it, which this would lose.
WITH shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || $2::bigint[]
    WHERE l.lease_id = $1 AND l.cancelled = '{}'
        -- A call that was answered into the void before changes nothing when it is repeated.
        AND NOT l.done && $2::bigint[]
    RETURNING l.worker_id, l.queue::text AS queue, l.jobs
),
released AS MATERIALIZED (
    SELECT s.worker_id, s.queue, j.id, j.kind, j.priority, j.payload, j.attempt - 1 AS attempt,
           j.max_attempts, j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key,
           j.outage_since
    FROM shrunk s
    CROSS JOIN LATERAL unnest(s.jobs) AS j
    WHERE j.id = ANY ($2::bigint[])
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since)
    SELECT r.segment, b.id, b.enqueued_at, b.attempt, b.max_attempts, b.generation, b.priority,
           b.crashes, b.refunds, b.queue, b.kind, b.payload, b.history, b.unique_key, b.outage_since
    FROM released b
    CROSS JOIN redrive.ring r
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, b.queue, '{released}', ARRAY[count(*)]
    FROM released b
    CROSS JOIN redrive.metric_ring m
    GROUP BY 1, 2
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', w.queue)
    FROM redrive.workers w
    WHERE w.queue IN (SELECT b.queue FROM released b)
        AND w.waiting AND w.expires_at > statement_timestamp()
        AND w.worker_id NOT IN (SELECT b.worker_id FROM released b)
    LIMIT 1
)
SELECT b.id, (SELECT count(*) FROM woken) AS woken
FROM released b
