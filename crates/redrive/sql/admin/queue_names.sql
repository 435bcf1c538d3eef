-- Purpose: returns the names of queues, and whether a given one is among them, without counting anything.
-- $1 text      queue
-- $2 bigint    maximum number of names
-- Index relied on: jobs_for_claim and jobs_delayed_for_promote, one step per name; see redrive.queues_with_letters.
-- Rows: always one. A queue has jobs, letters or failure groups, a worker or a rule of retention.
WITH RECURSIVE waiting AS (
    SELECT ''::text COLLATE "C" AS queue
    UNION ALL
    SELECT least((SELECT j.queue FROM redrive.jobs j WHERE j.queue > w.queue ORDER BY j.queue LIMIT 1),
                 (SELECT d.queue FROM redrive.jobs_delayed d WHERE d.queue > w.queue ORDER BY d.queue LIMIT 1))
    FROM waiting w
    WHERE w.queue IS NOT NULL
),
names AS MATERIALIZED (
    SELECT w.queue FROM waiting w WHERE w.queue > ''
    UNION
    SELECT l.queue::text FROM redrive.leases l
    UNION
    SELECT q.queue FROM redrive.queues_with_letters(1000000) AS q (queue)
)
SELECT $1 IN (SELECT n.queue FROM names n) AS is_known,
       ARRAY(SELECT n.queue FROM names n ORDER BY n.queue LIMIT $2) AS names
