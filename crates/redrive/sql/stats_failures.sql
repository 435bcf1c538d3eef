-- Purpose: the open letters of each queue by what went wrong.
-- Called by: stats.rs.
-- $1 text      queue; NULL: all
-- Locks: none.
-- Index relied on: dead_letters_open_for_redrive.
-- Rows: one a (queue, reason, error class), the most first. Zero rows: no open letter.
SELECT l.queue::text, l.reason, l.error_class, count(*) AS letters,
       (array_agg(l.error_message ORDER BY l.died_at DESC, l.id DESC))[1] AS sample,
       min(l.died_at) AS first_at, max(l.died_at) AS last_at
FROM redrive.dead_letters l
WHERE l.state = 'open' AND ($1::text IS NULL OR l.queue = $1)
GROUP BY l.queue, l.reason, l.error_class
ORDER BY l.queue, letters DESC, l.reason, l.error_class
