-- Purpose: returns from when the ticks of a schedule count if its rhythm is new, and the next tick that it keeps if it is
--          not.
-- Called by: schedule/handle.rs, before it sets or shows a schedule.
-- $1 text name  $2 text cron line  $3 text zone  $4 interval
-- Index relied on: the primary key of schedules.
-- Rows: always one. `kept` is NULL without the schedule, with another rhythm, or if no worker has read its cron line. The
--       clock may have gone back, but no tick up to the last one runs again.
SELECT greatest(clock_timestamp(), s.last_at) AS start,
       CASE WHEN (s.cron, s.zone, s.every) IS NOT DISTINCT FROM ($2::text, $3::text, $4::interval)
            THEN s.next_at::timestamptz END AS kept
FROM (SELECT 1) one
LEFT JOIN redrive.schedules s ON s.name = $1
