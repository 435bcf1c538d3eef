-- Purpose: removes every row of the queue of a rehearsal, and records that.
-- Called by: inspect/gameday.rs.
-- $1 text      queue: gameday- and 12 hexadecimal digits
-- $2 text      operator       $3 text  reason
-- Locks: the tasks fold_letters and fold_metrics, so that no fold restores a counter, and the rows it deletes.
-- Index relied on: jobs_for_claim for the jobs; it reads every letter, run, lease and delta.
-- Rows: always one: the number of jobs and letters removed. Zero: the queue had none.
SELECT redrive.remove_gameday($1, $2, $3) AS removed
