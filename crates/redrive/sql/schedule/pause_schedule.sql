-- Purpose: pauses or resumes a schedule.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 boolean pause  $3 text operator  $4 text reason
-- Locks: the schedule.
-- Index relied on: the primary key of schedules.
-- Rows: always one: whether the schedule exists.
SELECT redrive.pause_schedule($1, $2, $3, $4) AS found
