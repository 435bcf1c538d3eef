-- Purpose: returns the size of the ready jobs of all queues, the newest id, and the ranks of a queue with
--          the marks of processes that claim the same kinds.
-- Called by: pipeline/claim/measure.rs, for a worker's fetcher.
-- $1 text      queue
-- $2 text[]    kinds that this worker handles; NULL: all
-- $3 text[]    kinds that it leaves out; NULL: none
-- $4 bigint    size in bytes above which the ranks of ready jobs are searched
-- Index relied on: the primary key of claim_marks; jobs_for_claim, one descent per rank and segment. Dead
--                  rows of rank 0 and 1 and of stored ranks are not read.
-- Rows: always one. An id of 0: the rank has no mark. Rank 0 and 1 are always there.
WITH RECURSIVE size AS MATERIALIZED (
    SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0)::bigint AS bytes
    FROM pg_inherits i
    WHERE i.inhparent = 'redrive.jobs'::regclass AND i.inhrelid <> 'redrive.jobs_waiting'::regclass
),
marks AS MATERIALIZED (
    SELECT k.rank, max(k.id) AS id
    FROM (
        SELECT m.rank, m.id
        FROM redrive.claim_marks m
        WHERE m.queue = $1 AND m.claims = md5(concat($2::text[]::text, '-', $3::text[]::text))
            AND m.noted_at > statement_timestamp() - interval '1 day'
        UNION ALL
        SELECT r.rank, 0 FROM unnest('{0,1}'::integer[]) r (rank)
    ) k
    GROUP BY k.rank
),
-- The ranks between two known ones.
gaps AS (
    SELECT coalesce(lag(m.rank) OVER (ORDER BY m.rank), -2147483648) AS above, m.rank AS below
    FROM marks m
    UNION ALL
    SELECT max(m.rank), 2147483647 FROM marks m
),
found AS (
    SELECT g.below, n.rank
    FROM size s
    CROSS JOIN gaps g
    CROSS JOIN LATERAL (
        SELECT j.rank::integer AS rank
        FROM redrive.jobs j
        WHERE j.queue = $1 AND j.segment < 8 AND j.rank > g.above
            AND j.rank < g.below
        ORDER BY j.rank, j.id
        LIMIT 1
    ) n
    WHERE s.bytes > $4
    UNION ALL
    SELECT f.below, n.rank
    FROM found f
    CROSS JOIN LATERAL (
        SELECT j.rank::integer AS rank
        FROM redrive.jobs j
        WHERE j.queue = $1 AND j.segment < 8 AND j.rank > f.rank
            AND j.rank < f.below
        ORDER BY j.rank, j.id
        LIMIT 1
    ) n
),
ranks AS (
    SELECT m.rank, m.id FROM marks m
    UNION ALL
    SELECT f.rank, 0 FROM found f
)
SELECT s.bytes, p.last_value AS newest_id, k.ranks, k.ids
FROM size s
CROSS JOIN redrive.job_id p
CROSS JOIN (SELECT array_agg(r.rank) AS ranks, array_agg(r.id) AS ids FROM ranks r) k
