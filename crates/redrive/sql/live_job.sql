-- Purpose: shows one live job, wherever it is.
-- Called by: live.rs.
-- $1 bigint    id
-- Locks: none.
-- Index relied on: none on jobs, which has none by id: an operator's question may take a scan.
-- Rows: the job. Zero rows: it is not live (done, or dead: then there is a letter).
SELECT j.id, j.queue, j.kind, j.state, j.priority, j.payload, j.attempt, j.max_attempts,
       j.generation, j.crashes, j.run_at, j.enqueued_at,
       -- What happened before it was redriven is with its letter.
       coalesce(l.history || coalesce(j.history, '[]'), j.history) AS history, j.worker_id, w.host,
       j.unique_key, j.outage_since
FROM redrive.live_jobs j
LEFT JOIN redrive.workers w ON w.worker_id = j.worker_id
LEFT JOIN redrive.letters l ON j.generation > 0 AND l.id = j.id
WHERE j.id = $1
