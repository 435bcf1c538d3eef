-- Purpose: returns the unchanged bytes of a captured failure, in pieces if they exceed 16 MiB.
-- Called by: dlq/captured_bytes.rs, for the bytes of letters and for deliveries.
-- $1 bigint    id of the letter or of its job
-- Index relied on: the primary keys of dead_letters and captured_pieces.
-- Rows: one per piece, in order; a single NULL: the letter has no captured bytes. Zero rows: there is no such letter.
SELECT coalesce(p.bytes, l.raw) AS bytes
FROM redrive.dead_letters l
LEFT JOIN redrive.captured_pieces p ON p.letter_id = l.id AND p.version = l.edits
WHERE l.id = $1
ORDER BY p.place
