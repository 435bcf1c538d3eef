-- Purpose: tells which queues have ready jobs, and when their next delayed job is due. One look serves all idle queues of a
--          worker.
-- Called by: worker/fetcher/idle.rs, when the first of several idle queues polls.
-- $1 text[] queues
-- Index relied on: jobs_for_claim and jobs_waiting_by_group; jobs_delayed_for_promote. Rows that are dead but not yet
--                  vacuumed make it slow; the caller then looks less often.
-- Rows: one per queue: whether it has a ready job of any kind, and the milliseconds until the next delayed job is due; NULL:
--       none is delayed.
SELECT q.queue,
       EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = q.queue) AS has_jobs,
       (SELECT ceil(extract(epoch FROM min(d.run_at) - statement_timestamp()) * 1000)::bigint
        FROM redrive.jobs_delayed d
        WHERE d.queue = q.queue) AS due_ms
FROM (SELECT DISTINCT u.queue FROM unnest($1::text[]) AS u (queue)) q
