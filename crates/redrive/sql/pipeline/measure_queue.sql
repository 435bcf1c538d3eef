-- Purpose: returns the size of the ready jobs of all queues, the newest id, and the ranks of a queue that are neither 0
--          nor 1.
-- Called by: pipeline/claim/measure.rs, for a worker's fetcher.
-- $1 text      queue
-- $2 bigint    size in bytes above which the ranks of ready jobs are searched
-- Index relied on: jobs_for_claim, one descent per rank and segment. Dead rows of rank 0 and 1 are not read.
-- Rows: always one.
WITH RECURSIVE size AS MATERIALIZED (
    SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0)::bigint AS bytes
    FROM pg_inherits i
    WHERE i.inhparent = 'redrive.jobs'::regclass AND i.inhrelid <> 'redrive.jobs_waiting'::regclass
),
-- The ranks below 0 and above 1, each from the one before; the first of both starts at a bound.
found (rank, below) AS (
    SELECT g.*
    FROM size s
    CROSS JOIN (VALUES (-32768, 0), (1, 32767)) AS g (bound, below)
    WHERE s.bytes > $2
    UNION ALL
    SELECT n.rank, f.below
    FROM found f
    CROSS JOIN LATERAL (
        SELECT j.rank::integer AS rank
        FROM redrive.jobs j
        WHERE j.queue = $1 AND j.segment < 8 AND j.rank > f.rank
            AND j.rank < f.below
        ORDER BY j.rank, j.id
        LIMIT 1
    ) n
)
SELECT s.bytes, p.last_value AS newest_id, ARRAY(SELECT f.rank FROM found f WHERE f.rank NOT IN (-32768, 1)) AS ranks
FROM size s
CROSS JOIN redrive.job_id p
