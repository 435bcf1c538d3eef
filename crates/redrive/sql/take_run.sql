-- Purpose: makes the caller the driver of a redrive run that runs and that nobody drives.
-- Called by: redrive/drive.rs.
-- $1 bigint    the run; NULL: any
-- $2 uuid      the driver
-- $3 integer   milliseconds until somebody else may drive
-- Locks: the row of the run; one that is being driven right now is skipped.
-- Index relied on: redrive_runs_running, or the primary key.
-- Rows: always one: the run and the term; NULL when there is none to drive.
SELECT t.id, t.term
FROM redrive.take_run($1::bigint, $2, $3) t
