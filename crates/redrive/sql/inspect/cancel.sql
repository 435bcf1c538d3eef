-- Purpose: cancels a job. A ready or delayed job becomes a letter with the cause `manual`. A leased job
--          is marked and its worker notified; if its attempt fails, it becomes such a letter too.
-- Called by: inspect/jobs.rs.
-- $1 bigint    id
-- Locks: the row of the job; its lease, unless another session has locked that; the letter of a redriven job.
-- Index relied on: the primary key of jobs_delayed; unique_keys_by_job. It scans jobs and leases.
-- Rows: one: `dead` or `asked`. Zero rows: the job is not live.
WITH from_jobs AS (
    DELETE FROM redrive.jobs j WHERE j.id = $1 RETURNING redrive.ready_job(j) AS job
),
from_delayed AS (
    DELETE FROM redrive.jobs_delayed d WHERE d.id = $1 RETURNING redrive.delayed_job(d) AS job
),
died AS MATERIALIZED (
    SELECT 'dead'::text AS result,
           redrive.bury_waiting(array_agg(c.job), 'manual', 'cancelled', 'cancelled by an operator') AS letters
    FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c
    HAVING count(*) > 0
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
