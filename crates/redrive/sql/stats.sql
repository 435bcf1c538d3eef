-- Purpose: the numbers of each queue, for a person. It counts rows; the exporter does not use it.
-- Called by: stats.rs.
-- $1 text      queue; NULL: all
-- Locks: none.
-- Index relied on: none: counting reads everything.
-- Rows: one a queue that has anything. Zero rows: nothing at all.
WITH ready AS (
    SELECT j.queue, count(*) AS jobs, min(j.ready_at) AS oldest
    FROM redrive.jobs j WHERE $1::text IS NULL OR j.queue = $1 GROUP BY j.queue
),
delayed AS (
    SELECT d.queue, count(*) AS jobs
    FROM redrive.jobs_delayed d WHERE $1::text IS NULL OR d.queue = $1 GROUP BY d.queue
),
leased AS (
    SELECT l.queue::text AS queue, sum(cardinality(l.jobs) - cardinality(l.done)) AS jobs
    FROM redrive.leases l WHERE $1::text IS NULL OR l.queue = $1 GROUP BY l.queue
),
served AS (
    SELECT w.queue::text AS queue, count(*) AS workers, sum(w.slots) AS slots
    FROM redrive.workers w
    WHERE w.expires_at > statement_timestamp() AND ($1::text IS NULL OR w.queue = $1)
    GROUP BY w.queue
),
dead AS (
    SELECT l.queue::text AS queue,
           count(*) FILTER (WHERE l.state = 'open') AS open,
           count(*) FILTER (WHERE l.state = 'redriving') AS redriving,
           count(*) FILTER (WHERE l.state = 'recovered') AS recovered,
           count(*) FILTER (WHERE l.state = 'discarded') AS discarded,
           count(*) FILTER (WHERE l.state = 'quarantined') AS quarantined
    FROM redrive.dead_letters l WHERE $1::text IS NULL OR l.queue = $1 GROUP BY l.queue
)
SELECT queue,
       coalesce(ready.jobs, 0)::bigint AS ready,
       coalesce(delayed.jobs, 0)::bigint AS delayed,
       coalesce(leased.jobs, 0)::bigint AS leased,
       (extract(epoch FROM clock_timestamp() - ready.oldest) * 1000)::bigint AS oldest_ready_ms,
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
ORDER BY queue
