-- Purpose: returns the kinds of ready jobs that no live worker of their queue handles. Of a longer queue, it reads
--          the jobs that a claim would try first.
-- $1 text      queue
-- $2 bigint    maximum number of jobs to read
-- Index relied on: jobs_for_claim.
-- Rows: one per kind, by its bytes. Zero rows: live workers handle the kinds of all of these jobs.
WITH live AS MATERIALIZED (
    SELECT w.kinds FROM redrive.workers w WHERE w.queue = $1 AND w.expires_at > statement_timestamp()
)
SELECT j.kind::text AS kind
FROM (SELECT r.kind FROM redrive.jobs r WHERE r.queue = $1 ORDER BY r.rank, r.id LIMIT $2) j
WHERE NOT EXISTS (SELECT FROM live l WHERE l.kinds IS NULL)
EXCEPT
SELECT h.kind COLLATE "C" FROM live l CROSS JOIN unnest(l.kinds) AS h (kind)
ORDER BY kind
