-- Purpose: lists the redactions.
-- Called by: redaction.rs.
-- Locks: none.
-- Index relied on: redactions is small.
-- Rows: the redactions, in the order in which they are applied. Zero rows: nothing is redacted.
SELECT r.id, r.queue::text AS queue, r.kind::text AS kind, r.paths, r.patterns
FROM redrive.redactions r
ORDER BY r.id
