-- Purpose: counts the captured failures that are open, by source. It reads only the newest.
-- $1 bigint    how many letters to read
-- Index relied on: dead_letters_open_captured.
-- Rows: one per source, the one with most captures within the last hour first, with the number of all letters read.
--       Zero rows: no captured failure is open.
SELECT n.source, count(*) AS open, count(*) FILTER (WHERE n.died_at > statement_timestamp() - interval '1 hour') AS last_hour,
       sum(n.seen)::bigint AS seen, max(n.died_at) AS last_at, (sum(count(*)) OVER ())::bigint AS letters
FROM (
    SELECT l.source, l.seen, l.died_at
    FROM redrive.dead_letters l
    WHERE l.state = 'open' AND l.cause = 'captured'
    ORDER BY l.died_at DESC
    LIMIT $1
) n
GROUP BY n.source
ORDER BY last_hour DESC, open DESC, n.source
