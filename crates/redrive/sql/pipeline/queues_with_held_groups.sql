-- Purpose: lists the queues with groups that a letter holds, with their number and the one held for the longest time.
-- Called by: pipeline/held_group.rs, for the on-call screen.
-- $1 bigint  maximum number of groups, and of waiting jobs, that are counted per queue
-- Index relied on: group_slots_held, for each queue whose policy holds or diverts; jobs_waiting_by_group.
-- Rows: one per queue, the one with the oldest held group first. Zero rows: none is held.
SELECT q.queue, q.groups, q.waiting, q.group_key AS oldest_group, q.letter_id AS oldest_letter,
       q.held_at AS oldest_held_at
FROM redrive.queues_with_held_groups($1) q
WHERE q.groups > 0
ORDER BY q.held_at, q.queue
