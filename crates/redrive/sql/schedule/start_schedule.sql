-- Purpose: stores the next tick of a schedule that SQL set.
-- Called by: schedule/tick.rs, for any worker.
-- $1 text name  $2 bigint version  $3 timestamptz next tick
-- Locks: the schedule.
-- Index relied on: the primary key of schedules.
-- Rows: the schedule. Zero rows: another worker stored it, or the schedule has changed.
UPDATE redrive.schedules s
SET next_at = $3::timestamptz, retry_at = NULL, last_error = NULL
WHERE s.name = $1 AND s.version = $2 AND s.next_at IS NULL
RETURNING s.name::text AS name
