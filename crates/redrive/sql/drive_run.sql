-- Purpose: one step of a redrive run by its driver: what it decided, then the letters that are due.
-- Called by: redrive/drive.rs.
-- $1 bigint    the run        $2 uuid    the driver       $3 bigint  its term
-- $4 integer   milliseconds until somebody else may drive
-- $5 bigint    how many letters at most
-- $6 text      why to halt; NULL: go on
-- $7 integer   the next stage, when it begins; NULL: the same
-- $8 bigint    up to which member the next stage goes; NULL: to the end
-- Locks: the row of the run, waited for (shared, and the row of a stretch, when it is in
--        stretches); the letters it sends back, which are skipped when locked.
-- Index relied on: the primary keys of redrive_runs, run_stretches, run_letters and dead_letters.
-- Rows: always one; see redrive.drive_run for what it says.
SELECT d.what, d.wait_ms, d.canary, d.stage, d.stage_to, d.stage_sent, d.stage_recovered,
       d.stage_died, d.total, d.cursor, d.sent, d.skipped, d.recovered, d.died, d.stretches
FROM redrive.drive_run($1, $2, $3, $4, $5, $6::text, $7::integer, $8::bigint) d
