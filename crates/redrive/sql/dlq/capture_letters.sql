-- Purpose: stores foreign failures as letters, once per position of their source. Reopens closed letters.
-- Called by: dlq/capture/batch.rs, once per batch.
-- $1 text[] sources  $2 text[] positions  $3 text[] queues  $4 text[] kinds  $5 bytea[] raw bytes
-- $6 text[] content types  $7 jsonb[] headers  $8 text[] error classes  $9 text[] messages
-- $10 text[] details  $11 text[] group keys  $12 text[] failure keys
-- Locks: the existing letters of those positions, in the order of their ids.
-- Index relied on: dead_letters_captured_once.
-- Rows: one per failure, in the given order: the id of the letter, whether it is new or reopened, and whether it has
--       other bytes.
SELECT c.id, c.is_new, c.is_reopened,
       CASE WHEN NOT c.is_new AND NOT c.is_reopened
       THEN redrive.holds_other_bytes(c.id, ($5::bytea[])[c.place]) ELSE false END AS is_other
FROM redrive.capture_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS c
ORDER BY c.place
