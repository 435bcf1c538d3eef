-- Purpose: takes the jobs of lost leases back: their worker has not renewed in time, or its
--          row is gone. Each comes back as a suspect (crashes + 1) with its attempt refunded,
--          because a crash says nothing about the job; after max_crashes it is a letter.
-- Called by: reap.rs, by any worker, every few seconds.
-- $1 integer   lease time in milliseconds, for leases whose worker has no row
-- $2 bigint    leases per call
-- $3 integer   max_crashes
-- $4 integer   milliseconds of delay per crash from the second one on
-- $5 text      the reason of a cancelled job: manual
-- Locks: the lease rows; one that somebody settles or reaps right now is skipped. The letters of
--        redriven jobs that die, in the order of their ids, and their keys, in theirs.
-- Index relied on: leases is small; the primary key of workers; unique_keys_by_job.
-- Rows: the jobs taken back, `is_dead` for those that died. Zero rows: no lease is lost, or
--       the server started less than a lease ago (its workers need time to renew).
WITH lost AS MATERIALIZED (
    SELECT l.lease_id
    FROM redrive.leases l
    LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
    WHERE coalesce(w.expires_at, l.claimed_at + $1::integer * interval '1 millisecond')
            < statement_timestamp()
        AND pg_postmaster_start_time() + $1::integer * interval '1 millisecond'
            < statement_timestamp()
    ORDER BY l.claimed_at, l.lease_id
    LIMIT $2
    FOR UPDATE OF l SKIP LOCKED
),
ended AS (
    DELETE FROM redrive.leases l
    USING lost
    WHERE l.lease_id = lost.lease_id
    RETURNING l.queue, l.worker_id, l.jobs, l.done, l.cancelled
),
undone AS MATERIALIZED (
    SELECT e.queue::text AS queue, e.worker_id, w.host, w.version, w.pid, j.id, j.kind, j.priority,
           j.payload, j.attempt, j.max_attempts, j.generation, j.refunds, j.enqueued_at,
           j.unique_key, j.outage_since,
           j.crashes + 1 AS crashes, j.id = ANY (e.cancelled) AS is_cancelled,
           j.crashes + 1 >= $3 OR j.id = ANY (e.cancelled) AS is_dead,
           redrive.remember(j.history, jsonb_build_object(
               'generation', j.generation, 'attempt', j.attempt, 'outcome', 'worker_lost',
               'worker', e.worker_id, 'host', w.host, 'version', w.version, 'pid', w.pid,
               'ended_at', clock_timestamp())) AS history
    FROM ended e
    LEFT JOIN redrive.workers w ON w.worker_id = e.worker_id
    CROSS JOIN LATERAL unnest(e.jobs)
        AS j (id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds,
              enqueued_at, history, unique_key, outage_since)
    WHERE j.id <> ALL (e.done)
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since)
    SELECT r.segment, u.id, u.enqueued_at, u.attempt - 1, u.max_attempts, u.generation,
           u.priority, u.crashes, u.refunds, u.queue, u.kind, u.payload, u.history, u.unique_key,
           u.outage_since
    FROM undone u
    CROSS JOIN redrive.ring r
    WHERE NOT u.is_dead AND u.crashes = 1
),
delayed AS (
    INSERT INTO redrive.jobs_delayed
        (run_at, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since)
    SELECT clock_timestamp() + random() * u.crashes * $4::integer * interval '1 millisecond',
           u.id, u.enqueued_at, u.attempt - 1, u.max_attempts, u.generation, u.priority,
           u.crashes, u.refunds, u.queue, u.kind, u.payload, u.history, u.unique_key, u.outage_since
    FROM undone u
    WHERE NOT u.is_dead AND u.crashes > 1
),
died AS (
    INSERT INTO redrive.dead_letters
        (id, queue, kind, reason, error_class, error_message, payload, priority, attempts,
         max_attempts, generation, crashes, history, worker_id, host, version, enqueued_at,
         unique_key, pid)
    SELECT u.id, u.queue, u.kind,
           CASE WHEN u.is_cancelled THEN $5::text ELSE 'worker_lost' END,
           CASE WHEN u.is_cancelled THEN 'cancelled' ELSE 'worker_lost' END,
           CASE WHEN u.is_cancelled THEN 'cancelled by an operator'
                ELSE 'its worker went away ' || u.crashes || ' times while it ran' END,
           u.payload, u.priority, u.attempt, u.max_attempts, u.generation, u.crashes,
           u.history, u.worker_id, u.host, u.version, u.enqueued_at, u.unique_key, u.pid
    FROM undone u
    WHERE u.is_dead
    -- As everybody who waits for several letters.
    ORDER BY u.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', reason = excluded.reason, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        payload = excluded.payload, priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, discard_reason = NULL,
        unique_key = excluded.unique_key, pid = excluded.pid, run_ms = NULL,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at
),
-- A job that ended holds its key no longer; one that comes back keeps it. In the order of the keys, in
-- which an enqueue takes them.
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT h.job_id
        FROM redrive.unique_keys h
        WHERE h.job_id = ANY (ARRAY(SELECT u.id FROM undone u WHERE u.is_dead AND u.unique_key IS NOT NULL))
        ORDER BY h.queue, h.key
        FOR UPDATE))
),
-- The leases first: one whose jobs are all done has none left, and is lost all the same.
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, causes, counts)
    SELECT m.segment, c.queue, array_agg(c.word), array_agg(c.label), array_agg(c.cause), array_agg(c.count)
    FROM (
        SELECT e.queue::text AS queue, 'leases_lost' AS word, NULL::text AS label, NULL::text AS cause,
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
    CROSS JOIN redrive.metric_ring m
    GROUP BY 1, 2
),
-- Rows of workers that are long gone and hold nothing are of no use to anybody.
forgotten AS (
    DELETE FROM redrive.workers w
    WHERE w.expires_at < statement_timestamp() - interval '1 hour'
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.worker_id = w.worker_id)
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', q.queue)
    FROM (SELECT DISTINCT u.queue FROM undone u WHERE NOT u.is_dead) q
    WHERE EXISTS (
        SELECT FROM redrive.workers w
        WHERE w.queue = q.queue AND w.waiting AND w.expires_at > statement_timestamp())
)
SELECT u.id, u.is_dead, (SELECT count(*) FROM woken) AS woken
FROM undone u
