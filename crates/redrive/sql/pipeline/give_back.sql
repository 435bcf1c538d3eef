-- Purpose: returns some jobs of a lease to the queue because they wait behind slow ones and have not
--          started. Their attempts are refunded, and the lease records them as settled. It leaves those that an
--          operator cancelled, because a return would undo that.
-- Called by: pipeline/settle.rs, for a worker's settler, when the lease keeps other jobs.
-- $1 uuid      lease
-- $2 bigint[]  ids of the jobs; the lease must keep at least one other job
-- Locks: the lease row. NOTIFY takes the server's notification lock at commit, but only if another
--        worker is waiting.
-- Index relied on: the primary key of leases.
-- Rows: the jobs returned to the queue. Zero rows: nothing changed, because the lease is lost, the
--       jobs were already returned, or an operator cancelled all of them.
WITH shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || ARRAY(SELECT g.id FROM unnest($2::bigint[]) AS g (id) WHERE g.id <> ALL (l.cancelled))
    WHERE l.lease_id = $1 AND NOT l.cancelled @> $2::bigint[]
        -- A repeated call, after a lost reply, changes nothing.
        AND NOT l.done && $2::bigint[]
    RETURNING l.worker_id, l.queue::text AS queue, l AS lease
),
released AS MATERIALIZED (
    SELECT s.worker_id, s.queue, j.id,
           redrive.tried(j, j.attempt - 1) AS job
    FROM shrunk s
    CROSS JOIN LATERAL redrive.some_jobs_of(s.lease, $2::bigint[]) j
    WHERE j.id = ANY ($2::bigint[]) AND j.id <> ALL ((s.lease).cancelled)
),
ready AS MATERIALIZED (
    SELECT redrive.requeue(array_agg(b.job), '{}', true) FROM released b HAVING count(*) > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
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
WHERE (SELECT count(*) FROM ready) >= 0
