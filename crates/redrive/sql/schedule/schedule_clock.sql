-- Purpose: returns the database's time, and the times that determine the next tick of a schedule.
-- Called by: schedule/handle.rs, before it sets or shows a schedule.
-- $1 text name
-- Index relied on: the primary key of schedules.
-- Rows: always one. Without the schedule, all but the time is NULL.
SELECT clock_timestamp() AS now, s.cron, s.zone, (extract(epoch FROM s.every) * 1000)::bigint AS every,
       s.next_at::timestamptz AS next_at, s.last_at
FROM (SELECT 1) one
LEFT JOIN redrive.schedules s ON s.name = $1
