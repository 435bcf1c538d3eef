-- Purpose: returns the statistics of each queue, for operators. It counts jobs row by row and takes
--          letters from the totals of failure groups, which are exact. The exporter does not use it.
-- $1 text      queue; NULL: all
-- Index relied on: dead_letters_open_for_redrive for the oldest letter; counting reads all jobs.
-- Rows: one per queue that has jobs, letters or workers, or is paused. Zero rows: there is no such queue.
WITH ready AS (
    SELECT j.queue, count(*) AS jobs, min(coalesce((j.meta).ready_at, j.enqueued_at)) AS oldest
    FROM redrive.jobs j WHERE $1::text IS NULL OR j.queue = $1 GROUP BY j.queue
),
delayed AS (
    SELECT d.queue, count(*) AS jobs
    FROM redrive.jobs_delayed d WHERE $1::text IS NULL OR d.queue = $1 GROUP BY d.queue
),
leased AS (
    SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs
    FROM redrive.leases l WHERE $1::text IS NULL OR l.queue = $1 GROUP BY l.queue
),
served AS (
    SELECT s.queue, s.workers, s.slots FROM redrive.served_queues s WHERE $1::text IS NULL OR s.queue = $1
),
dead AS (
    SELECT f.queue, sum(f.open) AS open, sum(f.redriving) AS redriving, sum(f.recovered) AS recovered,
           sum(f.discarded) AS discarded, sum(f.quarantined) AS quarantined
    FROM redrive.failure_groups f
    WHERE $1::text IS NULL OR f.queue = $1
    GROUP BY f.queue
    HAVING sum(f.open + f.redriving + f.recovered + f.discarded + f.quarantined) > 0
),
paused AS (
    SELECT p.queue, p.paused_at, p.ends_at, p.person, p.reason
    FROM redrive.paused_queues p WHERE $1::text IS NULL OR p.queue = $1
)
SELECT queue,
       coalesce(ready.jobs, 0)::bigint AS ready,
       coalesce(delayed.jobs, 0)::bigint AS delayed,
       coalesce(leased.jobs, 0)::bigint AS leased,
       (extract(epoch FROM clock_timestamp() - ready.oldest) * 1000)::bigint AS oldest_ready,
       coalesce(served.workers, 0)::bigint AS workers,
       coalesce(served.slots, 0)::bigint AS slots,
       coalesce(dead.open, 0)::bigint AS open,
       coalesce(dead.redriving, 0)::bigint AS redriving,
       coalesce(dead.recovered, 0)::bigint AS recovered,
       coalesce(dead.discarded, 0)::bigint AS discarded,
       coalesce(dead.quarantined, 0)::bigint AS quarantined,
       CASE WHEN dead.open > 0 THEN
           (SELECT l.died_at FROM redrive.dead_letters l
            WHERE l.queue = dead.queue AND l.state = 'open'
                AND l.group_id <> ALL (ARRAY(SELECT g.id FROM redrive.groups g WHERE g.state = 'ignored'))
            ORDER BY l.queue, l.died_at, l.id LIMIT 1)
       END AS oldest_open,
       paused.paused_at, paused.ends_at, paused.person, paused.reason
FROM ready
FULL JOIN delayed USING (queue)
FULL JOIN leased USING (queue)
FULL JOIN served USING (queue)
FULL JOIN dead USING (queue)
FULL JOIN paused USING (queue)
ORDER BY queue
