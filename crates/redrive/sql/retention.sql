-- Purpose: lists the rules of retention.
-- Called by: retention.rs.
-- Locks: none.
-- Index relied on: retention is small.
-- Rows: the rules, those for every queue first. Zero rows: all is kept for ever.
SELECT r.queue::text AS queue, r.state, (extract(epoch FROM r.keep) * 1000)::bigint AS keep_ms, r.action
FROM redrive.retention r
ORDER BY r.queue NULLS FIRST, r.state
