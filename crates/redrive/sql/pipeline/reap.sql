-- Purpose: recovers the jobs of expired leases of other workers, which did not renew in time or have no row.
--          Each job returns as a suspect (crashes + 1) with its attempt refunded, because the crash
--          may not be the job's fault. After max_crashes the job is dead-lettered.
-- Called by: pipeline/reap.rs, for any worker, every few seconds.
-- $1 integer   lease time in milliseconds, for leases whose worker has no row
-- $2 bigint    maximum leases per call
-- $3 integer   max_crashes
-- $4 integer   delay per crash in milliseconds, from the second crash on
-- $5 uuid[]    rows of the worker that reaps
-- $6 bigint    maximum jobs per call          $7 bigint    maximum bytes per call, as stored
-- Locks: the lease rows, skipping leases that another session settles or reaps, and leases with a job
--        whose letter belongs to another job (see redrive.has_refused_death); the letters of
--        redriven jobs that die, in the order of their ids; their unique keys.
-- Index relied on: the primary key of workers; unique_keys_by_job; leases is small.
-- Rows: the recovered jobs, with `is_dead` for those that died. Zero rows: no lease has expired, or
--       workers may still renew, because the server started less than one lease time ago, or because
--       the caller did and no worker that is older has renewed.
WITH expired AS MATERIALIZED (
    SELECT l.lease_id, l.claimed_at, l.job_count, pg_column_size(l.payloads) + coalesce(pg_column_size(l.metas), 0) AS bytes
    FROM redrive.leases l
    LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
    WHERE coalesce(w.expires_at, l.claimed_at + $1::integer * interval '1 millisecond')
            < statement_timestamp()
        -- A worker that was silent for a lease renews its own leases, unless another one reaped them.
        AND l.worker_id <> ALL ($5::uuid[])
        -- A death that the database would refuse must not hold up the other leases. Only suspects and
        -- cancelled jobs can die here, and a suspect has its own lease. The condition on the time comes
        -- first, because the function unpacks the jobs.
        AND CASE
            WHEN l.job_count > 1 AND l.cancelled = '{}' THEN true
            WHEN coalesce(w.expires_at, l.claimed_at + $1::integer * interval '1 millisecond') < statement_timestamp()
            THEN NOT redrive.has_refused_death(l, $3)
        END
        AND pg_postmaster_start_time() + $1::integer * interval '1 millisecond'
            < statement_timestamp()
        -- After a failover a new worker may be faster than survivors that are still reconnecting.
        AND (
            NOT EXISTS (
                SELECT FROM redrive.workers me
                WHERE me.worker_id = ANY ($5::uuid[])
                    AND me.started_at + $1::integer * interval '1 millisecond' > statement_timestamp()
            )
            OR EXISTS (
                SELECT FROM redrive.workers older
                WHERE older.expires_at > statement_timestamp()
                    AND older.started_at + $1::integer * interval '1 millisecond' <= statement_timestamp()
            )
        )
    ORDER BY l.claimed_at, l.lease_id
    LIMIT $2
    FOR UPDATE OF l SKIP LOCKED
),
-- The first lease, and those that fit the bounds with it.
lost AS MATERIALIZED (
    SELECT s.lease_id
    FROM (
        SELECT x.lease_id, row_number() OVER oldest AS place, sum(x.job_count) OVER oldest AS jobs,
               sum(x.bytes) OVER oldest AS bytes
        FROM expired x
        WINDOW oldest AS (ORDER BY x.claimed_at, x.lease_id ROWS UNBOUNDED PRECEDING)
    ) s
    WHERE s.place = 1 OR (s.jobs <= $6::bigint AND s.bytes <= $7::bigint)
),
ended AS (
    DELETE FROM redrive.leases l
    WHERE l.lease_id = ANY (ARRAY(SELECT s.lease_id FROM lost s))
    RETURNING l.queue, l.worker_id, l.done, l.cancelled, l AS lease
),
undone AS MATERIALIZED (
    SELECT j.queue, j.kind, e.worker_id, w.host, w.version, w.pid, j.id, j.crashes + 1 AS crashes,
           j.id = ANY (e.cancelled) AS is_cancelled, d.is_dead,
           redrive.altered(
               j, CASE WHEN d.is_dead THEN j.attempt ELSE j.attempt - 1 END, j.crashes + 1,
               history => redrive.add_attempt(j.history, jsonb_build_object(
                   'generation', j.generation, 'attempt', j.attempt, 'outcome', 'worker_lost',
                   'worker', e.worker_id, 'host', w.host, 'version', w.version, 'pid', w.pid,
                   'ended_at', clock_timestamp())),
               ready_at => CASE WHEN j.crashes > 0 THEN
                   clock_timestamp() + random() * (j.crashes + 1) * $4::integer * interval '1 millisecond' END) AS job
    FROM ended e
    LEFT JOIN redrive.workers w ON w.worker_id = e.worker_id
    CROSS JOIN LATERAL redrive.jobs_of(e.lease) j
    CROSS JOIN LATERAL (SELECT j.crashes + 1 >= $3 OR j.id = ANY (e.cancelled) AS is_dead) d
    WHERE j.id <> ALL (e.done)
),
returned AS MATERIALIZED (
    SELECT redrive.requeue(array_agg(u.job) FILTER (WHERE u.crashes = 1),
                           array_agg(u.job) FILTER (WHERE u.crashes > 1), true)
    FROM undone u
    WHERE NOT u.is_dead
    HAVING count(*) > 0
),
died AS MATERIALIZED (
    SELECT redrive.bury(array_agg(u.job), array_agg(ROW(
               CASE WHEN u.is_cancelled THEN 'manual' ELSE 'worker_lost' END,
               CASE WHEN u.is_cancelled THEN 'cancelled' ELSE 'worker_lost' END,
               CASE WHEN u.is_cancelled THEN 'cancelled by an operator'
                    ELSE 'its worker went away ' || u.crashes || ' times while it ran' END,
               NULL, NULL, NULL, u.worker_id, u.host, u.version, u.pid)::redrive.death))
    FROM undone u
    WHERE u.is_dead AND (SELECT count(*) FROM returned) >= 0
    HAVING count(*) > 0
),
-- Leases are counted separately: a lease whose jobs are all done still counts as lost.
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, labels, causes, counts)
    SELECT c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.cause), array_agg(c.count)
    FROM (
        SELECT e.queue::text AS queue, 'leases_lost' AS key, NULL::text AS label, NULL::text AS cause,
               count(*) AS count
        FROM ended e
        GROUP BY 1
        UNION ALL
        SELECT u.queue, CASE WHEN u.is_dead THEN 'ended' ELSE 'released' END, NULL, NULL, count(*)
        FROM undone u
        GROUP BY 1, 2
        UNION ALL
        SELECT u.queue, 'failed', u.kind, 'worker_lost', count(*)
        FROM undone u
        GROUP BY 1, 3
    ) c
    GROUP BY 1
),
-- Deletes workers that expired more than an hour ago and hold no lease.
forgotten AS (
    DELETE FROM redrive.workers w
    WHERE w.expires_at < statement_timestamp() - interval '1 hour'
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.worker_id = w.worker_id)
),
woken AS MATERIALIZED (
    SELECT redrive.wake(q.queue) FROM (SELECT DISTINCT u.queue FROM undone u WHERE NOT u.is_dead) q
)
SELECT u.id, u.is_dead, (SELECT count(*) FROM woken) AS woken
FROM undone u
WHERE (SELECT count(*) FROM returned) + (SELECT count(*) FROM died) >= 0
