-- Purpose: lists the groups that a letter holds, with the number of jobs that wait and of letters that were diverted
--          behind it.
-- $1 text      queue; NULL: all
-- $2 bigint    letter; NULL: all
-- $3 bigint    maximum number of groups
-- Index relied on: the primary key of group_slots, or group_slots_by_job; jobs_waiting_by_group and dead_letters_diverted to count.
-- Rows: one per held group, the one held for the longest time first. Zero rows: none is held.
SELECT h.queue, h.group_key AS "group", h.letter_id AS letter, h.held_at, h.kind, h.error_class, h.waiting, h.diverted
FROM redrive.held_groups h
WHERE ($1::text IS NULL OR h.queue = $1) AND ($2::bigint IS NULL OR h.letter_id = $2)
ORDER BY h.held_at, h.letter_id
LIMIT $3
