-- Purpose: returns how long it is until the next tick of any schedule.
-- Called by: schedule/tick.rs, after a worker ran the ticks that were due.
-- Locks: none.
-- Index relied on: none; schedules is small.
-- Rows: always one: the milliseconds, rounded up. NULL: there is no schedule that ticks; a policy whose queue is held does not.
SELECT ceil(extract(epoch FROM min(coalesce(greatest(s.next_at, s.retry_at), clock_timestamp())) - clock_timestamp()) * 1000)::bigint
           AS next_ms
FROM redrive.schedules s
WHERE s.paused_at IS NULL AND NOT redrive.is_policy_held(s.policy)
