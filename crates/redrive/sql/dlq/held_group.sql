-- Purpose: returns the group that a letter holds, with the number of jobs that wait and of letters that were diverted
--          behind it.
-- Called by: dlq/letter.rs, for redrive dlq show.
-- $1 bigint    id of the letter
-- Index relied on: group_slots_by_job; jobs_waiting_by_group and dead_letters_diverted to count.
-- Rows: one. Zero rows: the letter holds no group.
SELECT h.queue, h.group_key AS "group", h.letter_id AS letter, h.held_at, h.kind, h.error_class, h.waiting, h.diverted
FROM redrive.held_groups h
WHERE h.letter_id = $1
