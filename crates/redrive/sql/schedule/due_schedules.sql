-- Purpose: lists schedules with a tick that is due, and those whose next tick a worker must compute.
-- Called by: schedule/tick.rs, for any worker, when the earliest tick is due.
-- Locks: none. redrive.tick_schedule checks again what this returns.
-- Index relied on: none; schedules is small, and so are breakers and pauses.
-- Rows: at most 100 schedules, the longest due first, with the database's time. Zero rows: none is due.
SELECT s.name::text AS name, s.version, s.cron, s.zone, (extract(epoch FROM s.every) * 1000)::bigint AS every,
       s.missed, s.next_at::timestamptz AS next_at, greatest(s.changed_at, s.last_at) AS since, statement_timestamp() AS now
FROM redrive.schedules s
WHERE s.paused_at IS NULL AND NOT redrive.is_policy_held(s.policy) AND coalesce(s.next_at <= statement_timestamp(), true)
    AND coalesce(s.retry_at <= statement_timestamp(), true)
ORDER BY s.next_at NULLS FIRST, s.name
LIMIT 100
