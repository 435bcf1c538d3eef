-- Purpose: returns one job: ready, delayed, running, or done and kept.
-- Called by: admin/jobs.rs.
-- $1 bigint    id
-- Locks: none.
-- Index relied on: none on jobs, which has no index on the id. A scan is acceptable for operators. The primary key of
--                  group_slots; done_jobs_by_id.
-- Rows: the job. Zero rows: the job succeeded and is not kept, or it is a letter.
SELECT j.id, j.queue, j.kind, j.state, j.priority, j.payload, j.attempt AS attempts, j.max_attempts,
       j.generation, j.crashes, j.run_at AS since, j.enqueued_at,
       -- The letter of a redriven job keeps its earlier history.
       coalesce(l.history || coalesce(j.history, '[]'), j.history) AS history, j.worker_id AS worker, w.host,
       j.unique_key, j.headers, j.outage_since, j.group_key,
       (SELECT min(h.letter_id) FROM redrive.held_groups h
        WHERE j.state = 'ready' AND h.queue = j.queue AND h.group_key = j.group_key) AS held_by
FROM redrive.all_jobs j
LEFT JOIN redrive.workers w ON w.worker_id = j.worker_id
LEFT JOIN redrive.letters l ON j.generation > 0 AND l.id = j.id
WHERE j.id = $1
