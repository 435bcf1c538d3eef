-- Purpose: The numbers of every queue, its workers, and the queues that are paused.

CREATE OR REPLACE VIEW redrive.paused_queues AS
    SELECT p.queue::text AS queue, p.paused_at, nullif(p.ends_at, 'infinity') AS ends_at, p.person, p.reason
    FROM redrive.queue_pauses p
    WHERE p.ends_at > statement_timestamp();

COMMENT ON VIEW redrive.paused_queues IS 'The queues that are paused now, with the person and the reason. An end of NULL: until an operator resumes the queue.';

-- The live workers of each queue. A worker has a row for each of its queues. Slots that queues share count for each of them,
-- and one that runs a job of any of these is busy for all. Batches count as full ones.
CREATE OR REPLACE VIEW redrive.served_queues AS
    SELECT w.queue, count(*) AS workers, sum(w.slots) AS slots, sum(least(w.slots, w.busy)) AS busy
    FROM (
        SELECT o.queue::text AS queue, o.slots,
               sum(coalesce((l.jobs + o.slot_jobs - 1) / o.slot_jobs, 0))
                   OVER (PARTITION BY coalesce(o.pool, o.worker_id)) AS busy
        FROM redrive.workers o
        LEFT JOIN (
            SELECT h.worker_id, sum(h.job_count - cardinality(h.done)) AS jobs
            FROM redrive.leases h GROUP BY h.worker_id
        ) l ON l.worker_id = o.worker_id
        WHERE o.expires_at > statement_timestamp()
    ) w
    GROUP BY w.queue;

COMMENT ON VIEW redrive.served_queues IS 'The live workers of each queue, their slots and how many of these run a job.';

-- It exposes no payload, error text or reason.
CREATE OR REPLACE VIEW redrive.queues AS
    WITH ready AS (
        SELECT j.queue::text AS queue, count(*) AS jobs, min(coalesce((j.meta).ready_at, j.enqueued_at)) AS oldest
        FROM redrive.jobs j
        GROUP BY 1
    ),
    delayed AS (
        SELECT d.queue::text AS queue, count(*) AS jobs
        FROM redrive.jobs_delayed d
        GROUP BY 1
    ),
    leased AS (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs
        FROM redrive.leases l
        GROUP BY 1
    ),
    dead AS (
        SELECT g.queue::text AS queue, sum(g.open) AS open, sum(g.redriving) AS redriving,
               sum(g.recovered) AS recovered, sum(g.discarded) AS discarded, sum(g.quarantined) AS quarantined
        FROM redrive.failure_groups g
        GROUP BY 1
        HAVING sum(g.open + g.redriving + g.recovered + g.discarded + g.quarantined) > 0
    )
    SELECT queue,
           CASE WHEN paused.paused_at IS NULL THEN 'running' ELSE 'paused' END AS state,
           paused.paused_at,
           paused.ends_at AS pause_ends_at,
           coalesce(ready.jobs, 0)::bigint AS ready,
           coalesce(delayed.jobs, 0)::bigint AS delayed,
           coalesce(leased.jobs, 0)::bigint AS leased,
           ready.oldest AS oldest_ready,
           coalesce(served.workers, 0)::bigint AS workers,
           coalesce(served.slots, 0)::bigint AS slots,
           coalesce(dead.open, 0)::bigint AS open,
           coalesce(dead.redriving, 0)::bigint AS redriving,
           coalesce(dead.recovered, 0)::bigint AS recovered,
           coalesce(dead.discarded, 0)::bigint AS discarded,
           coalesce(dead.quarantined, 0)::bigint AS quarantined
    FROM ready
    FULL JOIN delayed USING (queue)
    FULL JOIN leased USING (queue)
    FULL JOIN redrive.served_queues served USING (queue)
    FULL JOIN dead USING (queue)
    FULL JOIN redrive.paused_queues paused USING (queue);

COMMENT ON VIEW redrive.queues IS 'The numbers of every queue, counted row by row; meant for people, not for polling.';
