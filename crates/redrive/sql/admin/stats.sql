-- Purpose: returns the statistics of each queue, for operators, with its live jobs by kind. It counts jobs row by row and
--          takes letters from the totals of failure groups, which are exact. The exporter does not use it.
-- $1 text      queue; NULL: all
-- Index relied on: dead_letters_open_for_redrive for the oldest letter, jobs_waiting_by_group for held groups; counting
--                  reads all jobs.
-- Rows: one per queue that has jobs, letters or workers, or is paused; of all kinds the 1,000 with the most jobs. Zero
--       rows: there is no such queue.
WITH kinds AS (
    SELECT c.queue, c.kind, sum(c.ready)::bigint AS ready, sum(c.delayed)::bigint AS delayed,
           sum(c.leased)::bigint AS leased, sum(c.held)::bigint AS held
    FROM (
        SELECT j.queue::text AS queue, j.kind::text AS kind, count(*) AS ready, 0 AS delayed, 0 AS leased, 0 AS held
        FROM redrive.jobs j WHERE $1::text IS NULL OR j.queue = $1 GROUP BY 1, 2
        UNION ALL
        SELECT d.queue, d.kind, 0, count(*), 0, 0
        FROM redrive.jobs_delayed d WHERE $1::text IS NULL OR d.queue = $1 GROUP BY 1, 2
        UNION ALL
        SELECT l.queue, u.kind, 0, 0, count(*), 0
        FROM redrive.leases l
        CROSS JOIN LATERAL unnest(l.ids, l.kinds) AS u (id, kind)
        WHERE u.id <> ALL (l.done) AND ($1::text IS NULL OR l.queue = $1) GROUP BY 1, 2
        UNION ALL
        -- Segment 8 has the jobs that wait for their group. They are among the ready ones.
        SELECT j.queue, j.kind, 0, 0, 0, count(*)
        FROM redrive.group_slots s
        JOIN redrive.jobs j ON j.segment = 8 AND j.queue = s.queue AND (j.meta).group_key = s.group_key
        WHERE s.held_at IS NOT NULL AND ($1::text IS NULL OR s.queue = $1) GROUP BY 1, 2
    ) c
    GROUP BY c.queue, c.kind
    ORDER BY sum(c.ready + c.delayed + c.leased) DESC, c.queue, c.kind
    LIMIT 1000
),
by_queue AS (
    SELECT k.queue, jsonb_agg(to_jsonb(k) || jsonb_build_object('is_handled', EXISTS (
               SELECT FROM redrive.workers w
               WHERE w.queue = k.queue AND w.expires_at > statement_timestamp()
                   AND (w.kinds IS NULL OR k.kind = ANY (w.kinds))))
               ORDER BY k.ready + k.delayed + k.leased DESC, k.kind) AS kinds
    FROM kinds k
    GROUP BY k.queue
)
SELECT q.queue, q.ready, q.delayed, q.leased,
       (extract(epoch FROM clock_timestamp() - q.oldest_ready) * 1000)::bigint AS oldest_ready,
       q.workers, q.slots, q.open, q.redriving, q.recovered, q.discarded, q.quarantined,
       CASE WHEN q.open > 0 THEN
           (SELECT l.died_at FROM redrive.dead_letters l
            WHERE l.queue = q.queue AND l.state = 'open'
                AND l.group_id <> ALL (ARRAY(SELECT g.id FROM redrive.groups g WHERE g.state = 'ignored'))
            ORDER BY l.queue, l.died_at, l.id LIMIT 1)
       END AS oldest_open,
       p.paused_at, p.ends_at, p.person, p.reason, coalesce(k.kinds, '[]') AS kinds
FROM redrive.queues q
LEFT JOIN redrive.paused_queues p ON p.queue = q.queue
LEFT JOIN by_queue k ON k.queue = q.queue
WHERE $1::text IS NULL OR q.queue = $1
ORDER BY q.queue
