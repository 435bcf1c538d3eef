-- Purpose: lists the schedules.
-- $1 text name; NULL: all
-- Index relied on: the primary key of schedules, or none for all of them.
-- Rows: the schedules, by name. Zero rows: there are none.
SELECT s.name::text AS name, s.cron, s.zone, (extract(epoch FROM s.every) * 1000)::bigint AS every,
       s.queue::text AS queue, s.kind::text AS kind, s.payload, s.priority::smallint AS priority,
       s.max_attempts::integer AS max_attempts, s.headers::jsonb AS headers, s.policy,
       redrive.is_policy_held(s.policy) AS is_held, s.missed, s.overlap,
       s.next_at::timestamptz AS next_at, s.last_at, s.last_error AS last_trouble, s.paused_at, s.created_at, s.changed_at
FROM redrive.schedules s
WHERE $1::text IS NULL OR s.name = $1
ORDER BY s.name
