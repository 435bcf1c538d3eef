-- Purpose: lists the groups that a letter holds, with the number of jobs that wait and of letters that were diverted
--          behind it.
-- $1 text      queue; NULL: only the group of the letter
-- $2 bigint    letter; NULL: only groups of the queue
-- $3 bigint    maximum number of groups
-- Index relied on: group_slots_held and group_slots_by_job; jobs_waiting_by_group and dead_letters_diverted to count.
-- Rows: one per held group, the one held for the longest time first. Zero rows: none is held.
SELECT h.queue, h.group_key AS "group", h.letter_id AS letter, h.held_at, h.kind, h.error_class, h.waiting, h.diverted
FROM unnest($2::bigint || ARRAY(
    SELECT s.job_id
    FROM redrive.group_slots s
    WHERE s.queue = $1 AND s.held_at IS NOT NULL
    ORDER BY s.held_at, s.job_id
    LIMIT $3)) AS i (id)
CROSS JOIN LATERAL (SELECT g.* FROM redrive.held_groups g WHERE g.letter_id = i.id LIMIT 1) h
ORDER BY h.held_at, h.letter_id
