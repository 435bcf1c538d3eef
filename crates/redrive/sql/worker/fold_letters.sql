-- Purpose: adds pending changes to the totals of failure groups. Readers get exact numbers without it,
--          but more slowly.
-- Called by: worker/chores.rs, every few seconds; one worker at a time.
-- $1 integer   maximum number of rows
-- Locks: the row of the task in exclusive_tasks, or it folds nothing; the rows of those groups, briefly.
-- Index relied on: the primary keys of groups and failure_hours.
-- Rows: always one: the number of changes folded, which is 0 if another worker is folding.
SELECT redrive.fold_letters($1) AS folded
