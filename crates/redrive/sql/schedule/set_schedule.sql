-- Purpose: adds a schedule, or changes the schedule with the same name.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 text cron line  $3 text time zone  $4 bigint milliseconds between ticks
-- $5 text queue  $6 text kind  $7 json payload  $8 smallint priority  $9 integer maximum attempts
-- $10 jsonb headers  $11 text policy for missed ticks  $12 integer how many run at most
-- $13 bigint their maximum age in milliseconds  $14 text overlap
-- $15 timestamptz first tick of a new rhythm  $16 text operator  $17 text reason
-- Locks: the schedule with that name.
-- Index relied on: the primary key of schedules.
-- Rows: always one: `created`, `changed` or `unchanged`.
SELECT redrive.set_schedule(
    $1, $2, $3, $4::bigint * interval '1 millisecond', $5, $6, $7, $8::smallint, $9, $10, $11, $12,
    $13::bigint * interval '1 millisecond', $14, $15, $16, $17) AS result
