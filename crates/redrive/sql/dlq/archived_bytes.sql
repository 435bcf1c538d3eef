-- Purpose: returns the unchanged captured bytes of an archived letter, in pieces if they exceed 16 MiB.
-- $1 bigint    id of the letter
-- Index relied on: the primary keys of archived_letters and captured_pieces.
-- Rows: one per piece, in order; a single NULL: the letter has no captured bytes. Zero rows: there is no such letter.
SELECT coalesce(p.bytes, l.raw) AS bytes
FROM redrive.archived_letters l
LEFT JOIN redrive.captured_pieces p ON p.letter_id = l.id AND p.version = l.edits
WHERE l.id = $1
ORDER BY p.place
