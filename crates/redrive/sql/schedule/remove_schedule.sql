-- Purpose: removes a schedule with its history, and keeps its jobs.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 text operator  $3 text reason
-- Locks: the schedule and its history.
-- Index relied on: the primary key of schedules; schedule_ticks_by_schedule.
-- Rows: always one: whether the schedule existed.
SELECT redrive.remove_schedule($1, $2, $3) AS found
