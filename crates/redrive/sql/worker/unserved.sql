-- Purpose: counts ready jobs of the kinds that a worker does not handle, so that the worker can log them.
-- Called by: worker/fetcher.rs, from time to time while the worker is idle.
-- $1 text      queue
-- $2 text[]    kinds that the worker handles
-- Index relied on: jobs_for_claim, for the first 1,000 jobs in the order of claims: jobs that nobody takes are
--                  left behind, at its start.
-- Rows: one per kind. Zero rows: the worker handles the kinds of these jobs.
SELECT j.kind, count(*) AS jobs
FROM (
    SELECT r.kind FROM redrive.jobs r WHERE r.queue = $1
    ORDER BY r.rank, r.id LIMIT 1000
) j
WHERE j.kind <> ALL ($2::text[])
GROUP BY j.kind
ORDER BY j.kind
