-- Purpose: lists jobs, the oldest id first: live ones and, if the filter says so, finished ones that are kept.
-- $1 jsonb     filter; see redrive.filter_jobs
-- $2 bigint    id of the last job of the previous page; NULL: first page
-- $3 bigint    maximum number of jobs
-- Index relied on: jobs_for_claim for a queue, the primary key of jobs_delayed for ids. Otherwise it scans the
--                  tables of the states in the filter. The primary key of group_slots. done_jobs_by_queue, done_jobs_by_id.
-- Rows: the jobs. Zero rows: no job matches.
SELECT j.id, j.queue, j.kind, j.state, j.priority, j.payload, j.attempt AS attempts, j.max_attempts,
       j.generation, j.crashes, j.run_at AS since, j.enqueued_at,
       -- The letter of a redriven job keeps its earlier history.
       coalesce(l.history || coalesce(j.history, '[]'), j.history) AS history, j.worker_id AS worker, w.host,
       j.unique_key, j.headers, j.outage_since, j.group_key,
       (SELECT min(h.letter_id) FROM redrive.held_groups h
        WHERE j.state = 'ready' AND h.queue = j.queue AND h.group_key = j.group_key) AS held_by
FROM redrive.list_jobs($1, $2, $3) j
LEFT JOIN redrive.workers w ON w.worker_id = j.worker_id
LEFT JOIN redrive.letters l ON j.generation > 0 AND l.id = j.id
ORDER BY j.id
