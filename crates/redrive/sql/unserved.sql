-- Purpose: the kinds of ready jobs that a worker does not handle, so that it can say so.
-- Called by: worker/fetch.rs, now and then while it is idle.
-- $1 text      queue
-- $2 text[]    kinds it handles
-- Locks: none.
-- Index relied on: jobs_for_claim; it looks at 1,000 jobs at most.
-- Rows: one a kind. Zero rows: it handles all that is there.
SELECT j.kind, count(*) AS jobs
FROM (
    SELECT r.kind FROM redrive.jobs r WHERE r.queue = $1 AND r.kind <> ALL ($2::text[]) LIMIT 1000
) j
GROUP BY j.kind
ORDER BY j.kind
