-- Purpose: runs a tick: advances the schedule, if it still is where it was read, and enqueues the jobs.
-- Called by: schedule/tick.rs, for any worker.
-- $1 text name  $2 bigint version  $3 timestamptz tick that is due
-- $4 timestamptz[] ticks that become jobs, oldest first  $5 bigint missed ticks  $6 timestamptz the latest of these
-- $7 timestamptz next tick
-- Locks: the schedule; a locked one is skipped.
-- Index relied on: the primary key of schedules; schedule_ticks_by_schedule.
-- Rows: always one: the new jobs. NULL: another process ran the tick, or the schedule has changed.
SELECT redrive.tick_schedule($1, $2, $3, $4, $5, $6, $7) AS jobs
