-- Purpose: changes the priority of a ready or delayed job. A ready job is deleted and inserted
--          under the same id, because rows of jobs are never updated.
-- $1 bigint    id
-- $2 smallint  priority
-- Locks: the row of the job.
-- Index relied on: the primary key of jobs_delayed. It scans jobs.
-- Rows: one: the id. Zero rows: the job is leased or not live.
WITH gone AS (
    DELETE FROM redrive.jobs j WHERE j.id = $1 RETURNING j.id, redrive.altered(redrive.ready_job(j), priority => $2::smallint) AS job
),
ready AS MATERIALIZED (
    SELECT redrive.requeue(array_agg(g.job), '{}', false) FROM gone g HAVING count(*) > 0
),
delayed AS (
    UPDATE redrive.jobs_delayed d
    SET meta.priority = $2::smallint
    WHERE d.id = $1
    RETURNING d.id
)
SELECT id FROM gone WHERE (SELECT count(*) FROM ready) >= 0 UNION ALL SELECT id FROM delayed
