-- Purpose: lists the groups that a letter holds, with the number of jobs that wait and of letters that were diverted
--          behind it.
-- $1 text      queue
-- $2 bigint    maximum number of groups
-- Index relied on: the primary key of group_slots; jobs_waiting_by_group and dead_letters_diverted to count.
-- Rows: one per held group, the one held for the longest time first. Zero rows: none is held.
SELECT h.queue, h.group_key AS "group", h.letter_id AS letter, h.held_at, h.kind, h.error_class, h.waiting, h.diverted
FROM redrive.held_groups h
WHERE h.queue = $1
ORDER BY h.held_at, h.letter_id
LIMIT $2
