-- Purpose: The numbers of every queue, its workers, and the queues that are paused.

-- The queues that are paused now. An end of NULL: until an operator resumes the queue.
CREATE OR REPLACE VIEW redrive.paused_queues AS
    SELECT p.queue::text AS queue, p.paused_at, nullif(p.ends_at, 'infinity') AS ends_at, p.person, p.reason
    FROM redrive.queue_pauses p
    WHERE p.ends_at > statement_timestamp();

COMMENT ON VIEW redrive.paused_queues IS 'The queues that are paused now, with the person and the reason.';

-- The rows of live workers and their free slots. A worker has a row for each of its queues, and one for each kind of which
-- few jobs run at a time. A slot that runs a job of one row is busy for all that share it. Batches count as full ones.
CREATE OR REPLACE VIEW redrive.live_workers AS
    SELECT w.queue, w.pool, w.kinds, w.slots, w.pool_slots, greatest(0, w.slots - w.busy) AS free,
           greatest(0, w.pool_slots - sum(w.busy) OVER (PARTITION BY w.pool)) AS pool_free
    FROM (
        SELECT o.queue::text AS queue, coalesce(o.pool, o.worker_id) AS pool, o.kinds, o.slots,
               coalesce(o.pool_slots, o.slots) AS pool_slots,
               coalesce((l.jobs + o.slot_jobs - 1) / o.slot_jobs, 0) AS busy
        FROM redrive.workers o
        LEFT JOIN (
            SELECT h.worker_id, sum(h.job_count - cardinality(h.done)) AS jobs
            FROM redrive.leases h GROUP BY h.worker_id
        ) l ON l.worker_id = o.worker_id
        WHERE o.expires_at > statement_timestamp()
    ) w;

COMMENT ON VIEW redrive.live_workers IS 'The rows of live workers, with the slots that run no job.';

-- The live workers of each queue. Slots that queues share count for each of them.
CREATE OR REPLACE VIEW redrive.served_queues AS
    SELECT w.queue, count(*) AS workers, sum(w.slots) AS slots, sum(w.slots - w.free) AS busy
    FROM (
        SELECT r.queue, least(sum(r.slots), max(r.pool_slots)) AS slots, least(sum(r.free), max(r.pool_free)) AS free
        FROM redrive.live_workers r
        GROUP BY r.queue, r.pool
    ) w
    GROUP BY w.queue;

COMMENT ON VIEW redrive.served_queues IS 'The live workers of each queue, their slots and how many of these run a job.';

-- The state and the numbers of every queue, as `redrive stats` shows them. It exposes no payload, error text or
-- reason.
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
    served AS (
        SELECT s.queue, s.workers, s.slots FROM redrive.served_queues s
    ),
    dead AS (
        SELECT g.queue::text AS queue, sum(g.open) AS open, sum(g.redriving) AS redriving,
               sum(g.recovered) AS recovered, sum(g.discarded) AS discarded, sum(g.quarantined) AS quarantined
        FROM redrive.failure_groups g
        GROUP BY 1
        HAVING sum(g.open + g.redriving + g.recovered + g.discarded + g.quarantined) > 0
    ),
    paused AS (
        SELECT p.queue, p.paused_at, p.ends_at FROM redrive.paused_queues p
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
    FULL JOIN served USING (queue)
    FULL JOIN dead USING (queue)
    FULL JOIN paused USING (queue);

COMMENT ON VIEW redrive.queues IS 'The numbers of every queue, counted row by row; meant for people, not for polling.';
