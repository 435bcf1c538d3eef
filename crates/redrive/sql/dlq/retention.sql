-- Purpose: lists the retention rules.
-- Rows: the rules, those for all queues first. Zero rows: all letters are kept.
SELECT r.queue::text AS queue, r.state, (extract(epoch FROM r.keep) * 1000)::bigint AS keep, r.action
FROM redrive.retention r
ORDER BY r.queue NULLS FIRST, r.state
