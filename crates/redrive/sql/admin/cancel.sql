-- Purpose: cancels a waiting job, and writes the audit. The job becomes a letter with the cause `manual`.
-- $1 bigint    id
-- $2 text      operator       $3 text  reason
-- Locks: the row of the job; the letter of a redriven job.
-- Index relied on: the primary key of jobs_delayed; unique_keys_by_job. It scans jobs.
-- Rows: one. Zero rows: the job does not wait.
WITH from_jobs AS (
    DELETE FROM redrive.jobs j WHERE j.id = $1 RETURNING redrive.ready_job(j) AS job
),
from_delayed AS (
    DELETE FROM redrive.jobs_delayed d WHERE d.id = $1 RETURNING redrive.delayed_job(d) AS job
)
SELECT redrive.bury_waiting(
           array_agg(c.job), 'manual', 'cancelled', 'cancelled by an operator',
           redrive.record_act('cancel_jobs', $2, $3, jsonb_build_object('ids', jsonb_build_array($1::bigint)), 1)) AS letters
FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c
HAVING count(*) > 0
