-- Purpose: returns the unchanged bytes of a captured failure.
-- Called by: dlq/capture.rs.
-- $1 bigint    id of the letter or of its job
-- Locks: none.
-- Index relied on: the primary key.
-- Rows: one; NULL: the letter has no captured bytes. Zero rows: there is no such letter.
SELECT l.raw
FROM redrive.dead_letters l
WHERE l.id = $1
