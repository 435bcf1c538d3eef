-- Purpose: changes the priority of a ready or delayed job. A ready one is deleted and inserted
--          again with its id: rows of jobs are never updated.
-- Called by: live.rs.
-- $1 bigint    id
-- $2 smallint  priority
-- Locks: the row of the job.
-- Index relied on: the primary key of jobs_delayed; a scan of jobs.
-- Rows: one when it was changed. Zero rows: the job is leased or not live.
WITH gone AS (
    DELETE FROM redrive.jobs j
    WHERE j.id = $1
    RETURNING j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.crashes,
              j.refunds, j.queue, j.kind, j.payload, j.history, j.unique_key, j.outage_since
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since)
    SELECT r.segment, g.id, g.ready_at, g.enqueued_at, g.attempt, g.max_attempts, g.generation,
           $2::smallint, g.crashes, g.refunds, g.queue, g.kind, g.payload, g.history, g.unique_key,
           g.outage_since
    FROM gone g
    CROSS JOIN redrive.ring r
    RETURNING id
),
delayed AS (
    UPDATE redrive.jobs_delayed d
    SET priority = $2::smallint
    WHERE d.id = $1
    RETURNING d.id
)
SELECT id FROM ready UNION ALL SELECT id FROM delayed
