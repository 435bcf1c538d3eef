-- Purpose: chooses a group with waiting jobs at random. A second walk over the groups starts there, so that it rarely
--          meets the first one.
-- Called by: pipeline/claim/groups.rs, for the second fetcher of a worker.
-- $1 text      queue
-- Index relied on: none. It reads four pages from each of up to 64 places of the table, and stops at the first row. An
--                  index of a table that is being drained has many dead entries before the first live one.
-- Rows: one. Zero rows: no job waits at these places, so there are none or few.
SELECT w.key
FROM (
    SELECT floor(random() * pg_relation_size('redrive.jobs_waiting') / current_setting('block_size')::bigint)::bigint AS page
    FROM generate_series(1, 64)
) p
CROSS JOIN LATERAL (
    SELECT (j.meta).group_key AS key
    FROM redrive.jobs_waiting j
    WHERE j.queue = $1 AND j.ctid >= format('(%s,0)', p.page)::tid AND j.ctid < format('(%s,0)', p.page + 4)::tid
    LIMIT 1
) w
LIMIT 1
