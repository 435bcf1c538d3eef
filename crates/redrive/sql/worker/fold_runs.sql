-- Purpose: adds pending outcomes to the totals of redrive runs without a driver. Readers get exact
--          numbers without it, but more slowly.
-- Called by: worker/chores.rs, every few seconds.
-- $1 integer   maximum number of rows
-- Locks: the rows of those runs, briefly, skipping runs that another session has locked.
-- Index relied on: run_deltas_by_run.
-- Rows: always one: the number of changes folded.
SELECT redrive.fold_runs($1) AS folded
