-- Purpose: returns the failure groups of each queue that have open letters, each with its newest and
--          oldest open letter.
-- $1 text      queue; NULL: all
-- Index relied on: dead_letters_by_group, twice per group.
-- Rows: one per group, at most the 1,000 with the most open letters. Zero rows: no letter is open.
SELECT f.id AS "group", f.queue, f.error_class, f.open AS letters, newest.cause, newest.error_message AS sample,
       oldest.died_at AS first_at, newest.died_at AS last_at
FROM (
    SELECT g.id, g.queue, g.error_class, g.open
    FROM redrive.failure_groups g
    WHERE g.open > 0 AND ($1::text IS NULL OR g.queue = $1)
    ORDER BY g.open DESC, g.id
    LIMIT 1000
) f
CROSS JOIN LATERAL (
    SELECT l.cause, l.error_message, l.died_at
    FROM redrive.dead_letters l
    WHERE l.group_id = f.id AND l.state = 'open'
    ORDER BY l.group_id, l.died_at DESC, l.id DESC
    LIMIT 1
) newest
CROSS JOIN LATERAL (
    SELECT l.died_at
    FROM redrive.dead_letters l
    WHERE l.group_id = f.id AND l.state = 'open'
    ORDER BY l.group_id, l.died_at, l.id
    LIMIT 1
) oldest
ORDER BY f.queue, f.open DESC, f.error_class, f.id
