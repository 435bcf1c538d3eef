-- Purpose: folds what changed in the numbers of failure groups into their totals, and the outcomes of
--          redrive runs that nobody drives any more into theirs. Reading them is exact without it,
--          and slower.
-- Called by: worker/chores.rs, every few seconds; by one worker at a time.
-- Locks: an advisory lock of its own; the rows of the groups and of those runs, shortly.
-- Index relied on: the primary keys of groups and failure_hours; run_deltas_by_run.
-- Rows: always one: how many changes were folded; zero also when another worker is at it.
SELECT redrive.fold_letters() + redrive.fold_runs() AS folded
