-- Purpose: lists the redactions.
-- Index relied on: none; redactions is small.
-- Rows: the redactions, in the order in which they apply. Zero rows: letters are stored unredacted.
SELECT r.id, r.queue::text AS queue, r.kind::text AS kind, r.paths, r.patterns
FROM redrive.redactions r
ORDER BY r.id
