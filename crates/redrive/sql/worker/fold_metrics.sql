-- Purpose: adds pending counter changes to the published totals and frees their space.
-- Called by: worker/chores.rs, every few seconds, one worker at a time; admin/counters.rs,
--            before an audit of the counters.
-- $1 integer   maximum number of rows
-- Locks: the row of the task in exclusive_tasks, or it folds nothing; the rows of the totals, briefly;
--        ACCESS EXCLUSIVE on a drained child of metric_deltas, after waiting at most 50 ms.
-- Index relied on: the primary keys of metric_values and metric_slots.
-- Rows: always one: the number of rows folded, which is 0 if another worker is folding.
SELECT redrive.fold_metrics($1) AS folded
