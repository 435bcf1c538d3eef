-- Purpose: adds a schedule that redrives letters, or changes the schedule with the same name.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 jsonb filter; see redrive.filter_letters  $3 bigint milliseconds between ticks
-- $4 text cron line  $5 text time zone  $6 jsonb options; see redrive.checked_policy
-- $7 timestamptz first tick of a new rhythm  $8 text operator  $9 text reason
-- Locks: the schedule with that name.
-- Index relied on: the primary key of schedules.
-- Rows: always one: `created`, `changed` or `unchanged`.
SELECT redrive.set_policy($1, $2, $3::bigint * interval '1 millisecond', $4, $5, $6, $7, $8, $9) AS result
