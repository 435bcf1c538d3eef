-- Purpose: makes the caller the driver of a running redrive run that has no live driver.
-- Called by: dlq/runs/driver.rs.
-- $1 bigint    run; NULL: any
-- $2 uuid      driver
-- $3 integer   milliseconds after which another driver may take the run
-- Locks: the row of the run; a run whose row is locked by its driver is skipped.
-- Index relied on: redrive_runs_running, or the primary key.
-- Rows: always one: the run and the driver's term; NULL if no run needs a driver.
SELECT t.id, t.term
FROM redrive.take_run($1::bigint, $2, $3) t
