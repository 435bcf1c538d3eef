-- Purpose: counts the live workers that claim the same jobs as this one.
-- Called by: worker/fetcher/help.rs, about every second while its claims return full batches.
-- $1 uuid      worker
-- Index relied on: the primary key of workers, which is small.
-- Rows: always one: the number of other workers with the same queue and kinds. All of them are busy,
--       because there is a backlog; the column waiting may not show it yet.
SELECT count(*) AS others
FROM redrive.workers me
JOIN redrive.workers other
    ON other.queue = me.queue AND other.worker_id <> me.worker_id
    AND other.kinds IS NOT DISTINCT FROM me.kinds
WHERE me.worker_id = $1 AND other.expires_at > statement_timestamp()
