-- Purpose: moves a batch of letters to the groups where the rules put them; see redrive.regroup_letters.
-- Called by: dlq/group_rule.rs, until `is_last`.
-- $1 bigint    rule
-- $2 bigint    maximum number of letters
-- $3 text      position from the previous batch; NULL: first batch
-- Locks: the letters, in the order of their ids, skipping locked ones; the row of the task fold_letters.
-- Index relied on: dead_letters_by_group, dead_letters_redriving.
-- Rows: always one: the position, the numbers of moved and of locked letters, and whether this was the last batch.
SELECT r.after::text AS after, r.moved, r.locked, r.is_last
FROM redrive.regroup_letters($1, $2, $3::text::jsonb) r
