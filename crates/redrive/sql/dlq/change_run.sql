-- Purpose: approves, pauses, resumes or cancels a redrive run, and writes the audit.
-- Called by: dlq/runs/run.rs.
-- $1 bigint    run            $2 text    approve, pause, resume or cancel
-- $3 text      reason         $4 text    operator
-- Locks: the row of the run; it waits for a step in progress.
-- Index relied on: the primary key of redrive_runs.
-- Rows: always one: the old and the new state; NULL if the run does not exist.
SELECT c.was, c.became
FROM redrive.change_run($1, $2, $3, $4) c
