-- Purpose: cancels a waiting job. It becomes a letter with the cause `manual`.
-- $1 bigint    id
-- Locks: the row of the job; the letter of a redriven job.
-- Index relied on: the primary key of jobs_delayed; unique_keys_by_job. It scans jobs.
-- Rows: one. Zero rows: the job does not wait.
WITH from_jobs AS (
    DELETE FROM redrive.jobs j WHERE j.id = $1 RETURNING redrive.ready_job(j) AS job
),
from_delayed AS (
    DELETE FROM redrive.jobs_delayed d WHERE d.id = $1 RETURNING redrive.delayed_job(d) AS job
)
SELECT redrive.bury_waiting(array_agg(c.job), 'manual', 'cancelled', 'cancelled by an operator') AS letters
FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c
HAVING count(*) > 0
