-- Purpose: runs one step of a redrive run: stores the driver's decision, then sends the letters that are due.
-- Called by: dlq/runs/driver.rs.
-- $1 bigint    run            $2 uuid    driver           $3 bigint  term of the driver
-- $4 integer   milliseconds after which another driver may take the run
-- $5 bigint    maximum number of letters to send
-- $6 text      why the run halts; NULL: it continues
-- $7 integer   next stage, if one begins; NULL: unchanged
-- $8 bigint    last member of the next stage; NULL: the last member of the run
-- Locks: the row of the run, waiting for it (a shared lock, and the row of a chunk, if the run has
--        chunks); the letters it sends, skipping locked ones.
-- Index relied on: the primary keys of redrive_runs, run_chunks, run_letters and dead_letters.
-- Rows: always one; redrive.drive_run documents the columns.
SELECT d.status, d.wait_ms, d.canary, d.stage, d.stage_to, d.stage_sent, d.stage_recovered,
       d.stage_died, d.total, d.cursor, d.sent, d.skipped, d.recovered, d.died, d.chunks,
       d.tolerated, d.sample
FROM redrive.drive_run($1, $2, $3, $4, $5, $6::text, $7::integer, $8::bigint) d
