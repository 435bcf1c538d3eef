-- Purpose: folds what was counted into the totals that are published, and gives its space back.
-- Called by: worker/chores.rs, every few seconds, by one worker at a time; counters.rs, before an audit.
-- $1 integer   how many rows at most
-- Locks: an advisory lock of its own; the rows of the totals, shortly; ACCESS EXCLUSIVE on a drained
--        child of metric_deltas, waited for at most 50 ms.
-- Index relied on: the primary keys of metric_values and metric_slots.
-- Rows: always one: how many rows were folded; zero also when another worker is at it.
SELECT redrive.fold_metrics($1) AS folded
