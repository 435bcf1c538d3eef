-- Purpose: returns the names of queues, and whether a given one is among them, without counting anything.
-- $1 text      queue
-- $2 bigint    maximum number of names
-- Index relied on: jobs_for_claim and jobs_delayed_for_promote, one step per name; groups_by_queue.
-- Rows: always one. A queue has jobs, letters or failure groups, or a worker.
WITH RECURSIVE ready AS (
    (SELECT j.queue FROM redrive.jobs j ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM redrive.jobs j WHERE j.queue > r.queue ORDER BY j.queue LIMIT 1)
    FROM ready r
    WHERE r.queue IS NOT NULL
),
delayed AS (
    (SELECT d.queue FROM redrive.jobs_delayed d ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM redrive.jobs_delayed d WHERE d.queue > r.queue ORDER BY d.queue LIMIT 1)
    FROM delayed r
    WHERE r.queue IS NOT NULL
),
names AS MATERIALIZED (
    SELECT r.queue::text AS queue FROM ready r WHERE r.queue IS NOT NULL
    UNION
    SELECT d.queue::text FROM delayed d WHERE d.queue IS NOT NULL
    UNION
    SELECT l.queue::text FROM redrive.leases l
    UNION
    SELECT w.queue::text FROM redrive.workers w
    UNION
    SELECT g.queue::text FROM redrive.groups g
)
SELECT $1 IN (SELECT n.queue FROM names n) AS is_known,
       ARRAY(SELECT n.queue FROM names n ORDER BY n.queue LIMIT $2) AS names
