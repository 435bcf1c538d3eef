-- Purpose: lets the jobs behind a letter continue, for an operator.
-- Called by: pipeline/held_group.rs.
-- $1 text      queue   $2 text  group
-- $3 text      operator   $4 text  reason
-- Locks: the slot of the letter.
-- Index relied on: the primary key of group_slots.
-- Rows: always one: the letter; NULL: none holds the group.
SELECT redrive.release_group($1, $2, $3, $4) AS letter
