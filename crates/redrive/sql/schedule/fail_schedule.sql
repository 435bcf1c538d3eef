-- Purpose: stores why a tick failed. The next attempt is a minute later, so that other schedules do not wait.
-- Called by: schedule/tick.rs, for any worker.
-- $1 text name  $2 bigint version  $3 text error
-- Locks: the schedule.
-- Index relied on: the primary key of schedules.
-- Rows: the schedule. Zero rows: the schedule has changed.
UPDATE redrive.schedules s
SET retry_at = clock_timestamp() + interval '1 minute', last_error = left($3, 1024)
WHERE s.name = $1 AND s.version = $2
RETURNING s.name::text AS name
