-- Purpose: enqueues the job of a schedule now.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 text operator  $3 text reason
-- Locks: none but what it inserts. It waits for a transaction that is storing the key of the same schedule.
-- Index relied on: the primary key of schedules; schedule_ticks_by_schedule.
-- Rows: always one: the job and whether it is new. A job of NULL: the schedule does not exist.
SELECT t.job_id, t.is_new FROM redrive.trigger_schedule($1, $2, $3) t
