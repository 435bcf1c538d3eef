-- Purpose: returns the queues that have ready jobs of some kinds, for a test that runs them.
-- $1 text[]    kinds; NULL: all
-- Index relied on: none; a test has few jobs.
-- Rows: the queues, that of the next job first. Zero rows: no job of these kinds is ready.
SELECT j.queue::text AS queue
FROM redrive.jobs j
WHERE $1::text[] IS NULL OR j.kind = ANY ($1::text[])
GROUP BY j.queue
ORDER BY min(j.rank), min(j.id)
