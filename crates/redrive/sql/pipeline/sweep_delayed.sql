-- Purpose: moves the due jobs of a queue in a window of pages from jobs_delayed to jobs, because they may lie below the
--          marks of all processes.
-- Called by: pipeline/promote.rs, for a worker's fetcher, while its promotions start at a mark.
-- $1 text      queue
-- $2 bigint    maximum number of jobs
-- $3 bigint    the first page
-- $4 bigint    the page after the last one
-- Locks: the rows of the jobs it moves; rows locked by other sessions are skipped.
-- Index relied on: none. It reads the pages by a range of ctids. The conditions on the queue and the time are
--                  expressions that match no index, because an index would be read past the dead rows of all pages.
-- Rows: always one: the number of jobs moved, and the pages of the table.
SELECT p.moved, pg_relation_size('redrive.jobs_delayed') / current_setting('block_size')::bigint AS pages
FROM (
    SELECT CASE WHEN count(*) > 0 THEN redrive.make_ready(array_agg(due.tid)) ELSE 0 END AS moved
    FROM (
        SELECT d.ctid AS tid
        FROM redrive.jobs_delayed d
        WHERE d.ctid >= format('(%s,0)', $3::bigint)::tid AND d.ctid < format('(%s,0)', $4::bigint)::tid
            AND concat(d.queue) = $1 AND d.run_at + interval '0' <= statement_timestamp()
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) due
) p
