-- Purpose: folds what changed in the numbers of failure groups into their totals. Reading them is
--          exact without it, and slower.
-- Called by: worker/pulse.rs, every few seconds; by one worker at a time.
-- Locks: an advisory lock of its own; the rows of the groups, shortly.
-- Index relied on: the primary keys of groups and failure_hours.
-- Rows: always one: how many changes were folded; zero also when another worker is at it.
SELECT redrive.fold_letters() AS folded
