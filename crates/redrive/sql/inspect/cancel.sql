-- Purpose: cancels a job. A ready or delayed job becomes a letter with the cause `manual`. A leased job
--          is marked and its worker notified; if its attempt fails, it becomes such a letter too.
-- Called by: inspect/jobs.rs.
-- $1 bigint    id
-- Locks: the row of the job; its lease, unless another session has locked that; the letter of a redriven job.
-- Index relied on: the primary key of jobs_delayed; unique_keys_by_job. It scans jobs and leases.
-- Rows: one: `dead` or `asked`. Zero rows: the job is not live.
WITH from_jobs AS (
    DELETE FROM redrive.jobs j
    WHERE j.id = $1
    RETURNING j.id, j.queue, j.kind, j.payload, j.priority, j.attempt, j.max_attempts,
              j.generation, j.crashes, j.history, j.enqueued_at, j.unique_key,
              j.headers, j.group_key
),
from_delayed AS (
    DELETE FROM redrive.jobs_delayed d
    WHERE d.id = $1
    RETURNING d.id, d.queue, d.kind, d.payload, d.priority, d.attempt, d.max_attempts,
              d.generation, d.crashes, d.history, d.enqueued_at, d.unique_key,
              d.headers, d.group_key
),
-- The lock order of letters and groups; see settle.sql.
letters AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(
        SELECT c.id FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c WHERE c.generation > 0))
    FOR NO KEY UPDATE
),
died AS (
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, priority, attempts,
         max_attempts, generation, crashes, history, enqueued_at, unique_key, headers, group_key)
    SELECT c.id, c.queue, c.kind, 'manual', 'cancelled', 'cancelled by an operator', c.payload,
           c.priority, c.attempt, c.max_attempts, c.generation, c.crashes,
           coalesce(c.history, '[]'), c.enqueued_at, c.unique_key, c.headers, c.group_key
    FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c
    WHERE (SELECT count(*) FROM letters) >= 0
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
    RETURNING 'dead'::text AS result
),
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT c.id FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c WHERE c.unique_key IS NOT NULL))
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, c.queue, '{ended}', '{1}'
    FROM (SELECT j.queue FROM from_jobs j UNION ALL SELECT d.queue FROM from_delayed d) c
    CROSS JOIN redrive.metric_ring m
),
-- A locked lease is being settled, so that its job ends now. It is not waited for, and the handler is told anyway.
asked AS (
    SELECT 'asked'::text AS result, l.worker_id
    FROM redrive.leases l
    WHERE $1 = ANY (l.ids) AND $1 <> ALL (l.done)
),
marked AS (
    UPDATE redrive.leases l
    SET cancelled = l.cancelled || $1::bigint
    WHERE l.lease_id = ANY (ARRAY(
        SELECT k.lease_id FROM redrive.leases k
        WHERE $1 = ANY (k.ids) AND $1 <> ALL (k.done)
        FOR UPDATE SKIP LOCKED))
),
told AS MATERIALIZED (
    SELECT pg_notify('redrive_cancel', concat(a.worker_id, ' ', $1)) FROM asked a
)
SELECT result, (SELECT count(*) FROM told) AS told
FROM (SELECT d.result FROM died d UNION ALL SELECT a.result FROM asked a) x
