-- Purpose: lists the protections of queues.
-- Rows: one per protected queue. Zero rows: there are none.
SELECT p.queue::text AS queue, p.approve_above, coalesce(p.roles, '{}') AS roles
FROM redrive.protections p
ORDER BY p.queue
