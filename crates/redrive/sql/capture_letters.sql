-- Purpose: records many foreign failures as letters, each once per position of its source.
-- Called by: captures.rs, a batch a call.
-- $1 text[] sources  $2 text[] positions  $3 text[] queues  $4 text[] kinds  $5 bytea[] raw bytes
-- $6 jsonb[] the bytes as jsonb, NULL where they may not be JSON
-- $7 text[] content types  $8 jsonb[] headers  $9 text[] error classes  $10 text[] messages
-- $11 text[] details
-- Locks: the letters of those positions, when there are some, in the order of the positions.
-- Index relied on: dead_letters_captured_once.
-- Rows: one for each that was given, in order: the id, and whether it is new.
SELECT c.id, c.is_new
FROM redrive.capture_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS c
ORDER BY c.place
