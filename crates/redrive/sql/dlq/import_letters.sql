-- Purpose: stores exported letters with their history and counts, once per position of their source.
-- Called by: dlq/capture/batch.rs, once per batch.
-- $1 jsonb[]   failures with the member `letter`; see redrive.import_letters
-- $2 bytea[]   their bytes
-- Locks: the existing letters of those positions, in the order of their ids.
-- Index relied on: dead_letters_captured_once.
-- Rows: one per failure, in the given order: the id of the letter, and whether it is new or reopened.
SELECT i.id, i.is_new, i.is_reopened, false AS is_other
FROM redrive.import_letters($1, $2) AS i
ORDER BY i.place
