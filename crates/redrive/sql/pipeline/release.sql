-- Purpose: ends leases of a worker and returns their jobs to the queue, each with its attempt
--          refunded. Used when a worker stops, and for leases that no slot runs.
-- Called by: pipeline/settle.rs, for a worker that stops or that lost the reply to a claim.
-- $1 uuid      worker
-- $2 uuid[]    only these leases; NULL: all
-- $3 uuid[]    leases to keep
-- $4 integer   only leases claimed at least this many milliseconds ago
-- $5 bigint[]  ids of jobs whose handlers had started; their refunds are counted. NULL: any of them may have
-- $6 integer   maximum refunds per job; after that, the attempt stays charged
-- $7 text      cause for a cancelled job: manual
-- Locks: the lease rows, skipping those that another session settles or reaps; the letters of
--        redriven jobs that die, in the order of their ids; their unique keys.
-- Index relied on: leases_for_reap, unique_keys_by_job.
-- Rows: the jobs returned to the queue, and those that died because they were cancelled or had no
--       refund and no attempt left (exhausted). Zero rows: the worker held no such lease.
WITH held AS MATERIALIZED (
    SELECT l.lease_id
    FROM redrive.leases l
    WHERE l.worker_id = $1 AND l.lease_id <> ALL ($3::uuid[])
        AND ($2::uuid[] IS NULL OR l.lease_id = ANY ($2::uuid[]))
        AND l.claimed_at <= clock_timestamp() - $4::integer * interval '1 millisecond'
    FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM redrive.leases l
    USING held
    WHERE l.lease_id = held.lease_id
    RETURNING l.queue, l.done, l.cancelled, l AS lease
),
released AS MATERIALIZED (
    SELECT e.queue::text AS queue, j.id, j.kind, j.priority, j.payload, j.max_attempts,
           j.generation, j.crashes, j.enqueued_at, j.history, j.unique_key, j.outage_since,
           j.headers, j.group_key,
           CASE WHEN s.has_started AND j.refunds >= $6::integer THEN j.attempt ELSE j.attempt - 1 END AS attempt,
           CASE WHEN s.has_started AND j.refunds < $6::integer THEN j.refunds + 1 ELSE j.refunds END AS refunds,
           j.id = ANY (e.cancelled) AS is_cancelled
    FROM ended e
    CROSS JOIN LATERAL redrive.jobs_of(e.lease) j
    CROSS JOIN LATERAL (SELECT coalesce(j.id = ANY ($5::bigint[]), true) AS has_started) s
    WHERE j.id <> ALL (e.done)
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN b.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_returned(b.queue, b.group_key, b.id) END,
           b.id, b.enqueued_at, b.attempt, b.max_attempts, b.generation, b.priority,
           b.crashes, b.refunds, b.queue, b.kind, b.payload, b.history, b.unique_key, b.outage_since,
           b.headers, b.group_key
    FROM released b
    WHERE b.attempt < b.max_attempts AND NOT b.is_cancelled
),
-- The lock order of letters and groups; see settle.sql.
letters AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(
        SELECT b.id FROM released b
        WHERE b.generation > 0 AND (b.attempt >= b.max_attempts OR b.is_cancelled)))
    ORDER BY l.id
    FOR NO KEY UPDATE
),
died AS (
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, priority, attempts,
         max_attempts, generation, crashes, history, worker_id, enqueued_at, unique_key, headers, group_key)
    SELECT b.id, b.queue, b.kind,
           CASE WHEN b.is_cancelled THEN $7::text ELSE 'exhausted' END,
           CASE WHEN b.is_cancelled THEN 'cancelled' ELSE 'released' END,
           CASE WHEN b.is_cancelled THEN 'cancelled by an operator'
                ELSE 'its worker stopped before it ended, or lost it, too many times' END,
           b.payload, b.priority, b.attempt, b.max_attempts, b.generation, b.crashes,
           coalesce(b.history, '[]'), $1, b.enqueued_at, b.unique_key, b.headers, b.group_key
    FROM released b
    WHERE (b.attempt >= b.max_attempts OR b.is_cancelled) AND (SELECT count(*) FROM letters) >= 0
    ORDER BY b.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        payload = excluded.payload,
        priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, discard_reason = NULL,
        failure_key = excluded.failure_key, unique_key = excluded.unique_key, headers = excluded.headers, group_key = excluded.group_key,
        pid = excluded.pid, run_ms = excluded.run_ms,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at
),
-- Frees the unique keys of jobs that ended.
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT b.id FROM released b
        WHERE b.unique_key IS NOT NULL AND (b.attempt >= b.max_attempts OR b.is_cancelled)))
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, b.queue, '{released,ended}',
           ARRAY[count(*) FILTER (WHERE b.attempt < b.max_attempts AND NOT b.is_cancelled),
                 count(*) FILTER (WHERE b.attempt >= b.max_attempts OR b.is_cancelled)]
    FROM released b
    CROSS JOIN redrive.metric_ring m
    GROUP BY 1, 2
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', w.queue)
    FROM redrive.workers w
    WHERE w.queue IN (SELECT b.queue FROM released b)
        AND w.waiting AND w.expires_at > statement_timestamp() AND w.worker_id <> $1
    LIMIT 1
)
SELECT b.id, (SELECT count(*) FROM woken) AS woken
FROM released b
