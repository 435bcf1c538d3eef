-- Purpose: moves the due jobs of a queue from jobs_delayed to jobs, the longest overdue first. In a large table it starts
--          at the mark of the queue, if there is one.
-- Called by: pipeline/promote.rs, for a worker's fetcher.
-- $1 text      queue
-- $2 bigint    maximum number of jobs
-- $3 bigint    pages up to which the table is read without a mark
-- $4 bigint    milliseconds within which the next job is searched
-- Locks: the rows of the jobs it moves; rows locked by other sessions are skipped.
-- Index relied on: jobs_delayed_for_promote; the primary key of delayed_marks.
-- Rows: always one: the number of jobs moved; when the last of them was due (NULL: none); the mark (0: none), which is 5
--       seconds old if it was in the future; the time of the statement; the pages of the table; and the milliseconds until
--       the next job is due (NULL: none within $4).
WITH mark AS MATERIALIZED (
    SELECT s.pages,
           CASE WHEN m.run_at > statement_timestamp() THEN statement_timestamp() - interval '5 seconds'
                ELSE coalesce(m.run_at, 'epoch') END AS run_at
    FROM (SELECT pg_relation_size('redrive.jobs_delayed') / current_setting('block_size')::bigint AS pages) s
    LEFT JOIN redrive.delayed_marks m ON m.queue = $1 AND s.pages > $3
),
due AS MATERIALIZED (
    SELECT d.ctid AS tid, d.run_at
    FROM redrive.jobs_delayed d
    WHERE d.queue = $1 AND d.run_at <= statement_timestamp()
        AND d.run_at >= (SELECT m.run_at FROM mark m)
    ORDER BY d.run_at, d.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
SELECT p.moved,
       (extract(epoch FROM p.last_at) * 1000000)::bigint AS last_micros,
       (extract(epoch FROM m.run_at) * 1000000)::bigint AS mark_micros,
       (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now_micros, m.pages,
       (
           SELECT greatest(0, extract(epoch FROM d.run_at - clock_timestamp()) * 1000)::bigint
           FROM redrive.jobs_delayed d
           WHERE d.queue = $1 AND d.run_at > statement_timestamp()
               AND d.run_at <= statement_timestamp() + $4::bigint * interval '1 millisecond'
           ORDER BY d.run_at
           LIMIT 1
       ) AS next_due_ms
FROM mark m
CROSS JOIN (
    SELECT CASE WHEN count(*) > 0 THEN redrive.make_ready(array_agg(due.tid)) ELSE 0 END AS moved,
           max(due.run_at) AS last_at
    FROM due
) p
