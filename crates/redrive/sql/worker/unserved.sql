-- Purpose: counts ready jobs of the kinds that a worker does not handle, so that the worker can log them.
-- Called by: worker/fetcher.rs, from time to time while the worker is idle.
-- $1 text      queue
-- $2 text[]    kinds that the worker handles
-- Locks: none.
-- Index relied on: jobs_for_claim; it stops after 1,000 jobs.
-- Rows: one per kind. Zero rows: the worker handles the kinds of all ready jobs.
SELECT j.kind, count(*) AS jobs
FROM (
    SELECT r.kind FROM redrive.jobs r WHERE r.queue = $1 AND r.kind <> ALL ($2::text[]) LIMIT 1000
) j
GROUP BY j.kind
ORDER BY j.kind
