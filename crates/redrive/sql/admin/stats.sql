-- Purpose: returns the statistics of each queue, for operators. It counts jobs row by row and takes
--          letters from the totals of failure groups, which are exact. The exporter does not use it.
-- $1 text      queue; NULL: all
-- Index relied on: dead_letters_open_for_redrive for the oldest letter; counting reads all jobs.
-- Rows: one per queue that has jobs, letters or workers, or is paused. Zero rows: there is no such queue.
SELECT q.queue, q.ready, q.delayed, q.leased,
       (extract(epoch FROM clock_timestamp() - q.oldest_ready) * 1000)::bigint AS oldest_ready,
       q.workers, q.slots, q.open, q.redriving, q.recovered, q.discarded, q.quarantined,
       CASE WHEN q.open > 0 THEN
           (SELECT l.died_at FROM redrive.dead_letters l
            WHERE l.queue = q.queue AND l.state = 'open'
                AND l.group_id <> ALL (ARRAY(SELECT g.id FROM redrive.groups g WHERE g.state = 'ignored'))
            ORDER BY l.queue, l.died_at, l.id LIMIT 1)
       END AS oldest_open,
       p.paused_at, p.ends_at, p.person, p.reason
FROM redrive.queues q
LEFT JOIN redrive.paused_queues p ON p.queue = q.queue
WHERE $1::text IS NULL OR q.queue = $1
ORDER BY q.queue
