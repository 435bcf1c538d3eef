-- Purpose: returns how long the oldest live job of each queue has been ready, for the driver of an
--          unthrottled run, which sends less while live jobs wait longer than before it.
-- Called by: dlq/runs/driver.rs, before each batch.
-- $1 bigint    run
-- Locks: none.
-- Index relied on: redrive.live_waits documents it.
-- Rows: one per queue with a live worker; 0 milliseconds: no live job that a worker handles waits. Zero
--       rows: there is no live worker, or the run has a rate.
SELECT w.queue, w.waited_ms
FROM redrive.live_waits($1) w
