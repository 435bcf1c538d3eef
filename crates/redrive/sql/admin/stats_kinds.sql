-- Purpose: returns the live jobs of each queue by kind, for operators, whether a live worker handles the
--          kind, and how many ready jobs wait behind a letter that holds their group. It counts jobs row by
--          row.
-- $1 text      queue; NULL: all
-- Index relied on: jobs_waiting_by_group for held groups; otherwise none, because counting reads all jobs.
-- Rows: one per queue and kind, at most the 1,000 with the most jobs. Zero rows: there is no live job.
SELECT k.queue, k.kind, k.ready, k.delayed, k.leased, k.held, EXISTS (
           SELECT FROM redrive.workers w
           WHERE w.queue = k.queue AND w.expires_at > statement_timestamp()
               AND (w.kinds IS NULL OR k.kind = ANY (w.kinds))
       ) AS is_handled
FROM (
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
) k
ORDER BY k.queue, k.ready + k.delayed + k.leased DESC, k.kind
