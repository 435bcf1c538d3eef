-- Purpose: ends leases of a worker and returns their jobs to the queue, each with its attempt
--          refunded. Used when a worker stops, and for leases that no slot runs.
-- Called by: pipeline/settle.rs, for a worker that stops or that lost the reply to a claim.
-- $1 uuid      worker
-- $2 uuid[]    only these leases; NULL: all
-- $3 integer   only leases claimed at least this many milliseconds ago
-- $4 bigint[]  ids of jobs whose handlers had started; their refunds are counted. NULL: any of them may have
-- $5 integer   maximum refunds per job; after that, the attempt stays charged
-- Locks: the lease rows, skipping those that another session settles or reaps; the letters of
--        redriven jobs that die, in the order of their ids; their unique keys.
-- Index relied on: leases_for_reap, unique_keys_by_job.
-- Rows: the jobs returned to the queue, and those that died because they were cancelled or had no
--       refund and no attempt left (exhausted). Zero rows: the worker held no such lease.
WITH held AS MATERIALIZED (
    SELECT l.lease_id
    FROM redrive.leases l
    WHERE l.worker_id = $1 AND ($2::uuid[] IS NULL OR l.lease_id = ANY ($2::uuid[]))
        AND l.claimed_at <= clock_timestamp() - $3::integer * interval '1 millisecond'
    FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM redrive.leases l
    WHERE l.lease_id = ANY (ARRAY(SELECT h.lease_id FROM held h))
    RETURNING l.done, l.cancelled, l AS lease
),
released AS MATERIALIZED (
    SELECT j.queue, j.id, c.is_cancelled OR t.attempt >= j.max_attempts AS is_dead, c.is_cancelled,
           redrive.altered(j, t.attempt, refunds => t.refunds) AS job
    FROM ended e
    CROSS JOIN LATERAL redrive.jobs_of(e.lease) j
    CROSS JOIN LATERAL (SELECT coalesce(j.id = ANY ($4::bigint[]), true) AS has_started) s
    CROSS JOIN LATERAL (SELECT j.id = ANY (e.cancelled) AS is_cancelled) c
    CROSS JOIN LATERAL (
        SELECT CASE WHEN s.has_started AND j.refunds >= $5::integer THEN j.attempt ELSE j.attempt - 1 END AS attempt,
               CASE WHEN s.has_started AND j.refunds < $5::integer THEN j.refunds + 1 ELSE j.refunds END AS refunds
    ) t
    WHERE j.id <> ALL (e.done)
),
ready AS MATERIALIZED (
    SELECT redrive.requeue(array_agg(b.job), '{}', true) FROM released b WHERE NOT b.is_dead HAVING count(*) > 0
),
died AS MATERIALIZED (
    SELECT redrive.bury(array_agg(b.job), array_agg(ROW(
               CASE WHEN b.is_cancelled THEN 'manual' ELSE 'exhausted' END,
               CASE WHEN b.is_cancelled THEN 'cancelled' ELSE 'released' END,
               CASE WHEN b.is_cancelled THEN 'cancelled by an operator'
                    ELSE 'its worker stopped before it ended, or lost it, too many times' END,
               NULL, NULL, NULL, $1, NULL, NULL, NULL)::redrive.death))
    FROM released b
    WHERE b.is_dead AND (SELECT count(*) FROM ready) >= 0
    HAVING count(*) > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, counts)
    SELECT b.queue, '{released,ended}',
           ARRAY[count(*) FILTER (WHERE NOT b.is_dead), count(*) FILTER (WHERE b.is_dead)]
    FROM released b
    GROUP BY 1
),
woken AS MATERIALIZED (
    SELECT redrive.wake(q.queue) FROM (SELECT DISTINCT b.queue FROM released b WHERE NOT b.is_dead) q
)
SELECT b.id, (SELECT count(*) FROM woken) AS woken
FROM released b
WHERE (SELECT count(*) FROM ready) + (SELECT count(*) FROM died) >= 0
