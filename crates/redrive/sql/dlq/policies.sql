-- Purpose: lists the policies, each with the result of its last tick and the worker that holds it.
-- Called by: dlq/policy/listed.rs.
-- Locks: none.
-- Index relied on: the primary key of workers; policies is small.
-- Rows: the policies, by name. Zero rows: there are no policies.
SELECT p.name::text AS name, p.filter, (extract(epoch FROM p.every) * 1000)::bigint AS every_ms, p.growth,
       (extract(epoch FROM p.max_delay) * 1000)::bigint AS max_delay_ms, p.batch, p.generations,
       p.from_hour, p.to_hour, p.while_closed, p.mode, p.next_at, p.last_at, p.last_letters,
       p.last_error, p.sent, p.term, h.holder,
       p.mode <> 'paused' AND p.while_closed
           AND coalesce(p.filter ->> 'queue' = ANY (b.queues), false) AS is_held,
       h.host, h.pid
FROM redrive.policies p
CROSS JOIN (SELECT redrive.held_queues() AS queues) b
LEFT JOIN LATERAL (
    SELECT p.holder, w.host, w.pid
    FROM (SELECT 1) one
    LEFT JOIN redrive.workers w ON w.worker_id = p.holder
    WHERE p.lease_until > statement_timestamp()
) h ON true
ORDER BY p.name
