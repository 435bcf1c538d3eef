-- Purpose: changes the priority of a ready or delayed job. A ready job is deleted and inserted
--          under the same id, because rows of jobs are never updated.
-- Called by: inspect/jobs.rs.
-- $1 bigint    id
-- $2 smallint  priority
-- Locks: the row of the job.
-- Index relied on: the primary key of jobs_delayed. It scans jobs.
-- Rows: one: the id. Zero rows: the job is leased or not live.
WITH gone AS (
    DELETE FROM redrive.jobs j
    WHERE j.id = $1
    RETURNING j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.crashes,
              j.refunds, j.queue, j.kind, j.payload, j.history, j.unique_key, j.outage_since,
              j.headers, j.group_key
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN g.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_waiting(g.queue, g.group_key, g.id, g.crashes) END, g.id, g.ready_at, g.enqueued_at,
           g.attempt, g.max_attempts, g.generation, $2::smallint, g.crashes, g.refunds, g.queue, g.kind,
           g.payload, g.history, g.unique_key, g.outage_since, g.headers, g.group_key
    FROM gone g
    RETURNING id
),
delayed AS (
    UPDATE redrive.jobs_delayed d
    SET priority = $2::smallint
    WHERE d.id = $1
    RETURNING d.id
)
SELECT id FROM ready UNION ALL SELECT id FROM delayed
