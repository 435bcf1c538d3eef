-- Purpose: makes letters of ready jobs whose kind no live worker handles, with the cause `unhandled`.
-- Called by: worker/chores/unhandled.rs.
-- $1 text      queue       $2 text  kind
-- $3 text      error message of the letters
-- $4 bigint    maximum number of jobs
-- Locks: the jobs; those locked by another session are skipped.
-- Index relied on: jobs_for_claim; unique_keys_by_job.
-- Rows: always one: the number of letters.
SELECT redrive.bury_unhandled($1, $2, $3, $4) AS buried
