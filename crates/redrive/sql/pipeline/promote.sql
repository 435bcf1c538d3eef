-- Purpose: moves the due jobs of a queue after a mark from jobs_delayed to jobs, the longest overdue first.
-- Called by: pipeline/promote.rs, for a worker's fetcher.
-- $1 text      queue
-- $2 bigint    maximum number of jobs
-- $3 bigint    the mark: a time in microseconds since 1970; NULL: the mark that another process stored, if any
-- $4 bigint    the mark: the id of a job that was due then; NULL with $3
-- $5 bigint    milliseconds within which the next job is searched
-- Locks: the rows of the jobs it moves; rows locked by other sessions are skipped.
-- Index relied on: jobs_delayed_for_promote; the primary key of delayed_marks.
-- Rows: always one: the number of jobs moved; the last of them (NULL: none); the mark, which is 5 seconds old if $3 was
--       in the future; the time of the statement; the pages of the table; and the milliseconds until the next job
--       is due (NULL: none within $5).
WITH mark AS MATERIALIZED (
    SELECT CASE WHEN k.run_at > statement_timestamp() THEN statement_timestamp() - interval '5 seconds'
                ELSE k.run_at END AS run_at, k.id
    FROM (
        SELECT coalesce(timestamptz 'epoch' + $3::bigint * interval '1 microsecond',
                        (SELECT m.run_at FROM redrive.delayed_marks m WHERE m.queue = $1), 'epoch') AS run_at,
               coalesce($4::bigint, (SELECT m.id FROM redrive.delayed_marks m WHERE m.queue = $1), 0) AS id
    ) k
),
due AS MATERIALIZED (
    SELECT d.ctid AS tid, d.run_at, d.id
    FROM redrive.jobs_delayed d
    WHERE d.queue = $1 AND d.run_at <= statement_timestamp()
        AND (d.run_at, d.id) > ((SELECT m.run_at FROM mark m), (SELECT m.id FROM mark m))
    ORDER BY d.run_at, d.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
SELECT p.moved,
       (extract(epoch FROM p.last_at) * 1000000)::bigint AS last_micros, p.last_id,
       (extract(epoch FROM m.run_at) * 1000000)::bigint AS mark_micros, m.id AS mark_id,
       (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now_micros,
       pg_relation_size('redrive.jobs_delayed') / current_setting('block_size')::bigint AS pages,
       (
           SELECT greatest(0, extract(epoch FROM d.run_at - clock_timestamp()) * 1000)::bigint
           FROM redrive.jobs_delayed d
           WHERE d.queue = $1 AND d.run_at > statement_timestamp()
               AND d.run_at <= statement_timestamp() + $5::bigint * interval '1 millisecond'
           ORDER BY d.run_at
           LIMIT 1
       ) AS next_due_ms
FROM mark m
CROSS JOIN (
    SELECT CASE WHEN count(*) > 0 THEN redrive.make_ready(array_agg(due.tid)) ELSE 0 END AS moved,
           (array_agg(due.run_at))[count(*)]::timestamptz AS last_at, (array_agg(due.id))[count(*)] AS last_id
    FROM due
) p
