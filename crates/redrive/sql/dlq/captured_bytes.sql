-- Purpose: returns the unchanged bytes of a captured failure.
-- Called by: dlq/captured_bytes.rs, for the bytes of letters and for deliveries.
-- $1 bigint    id of the letter or of its job
-- Index relied on: the primary key of dead_letters.
-- Rows: the bytes; NULL: the letter has no captured bytes. Zero rows: there is no such letter.
SELECT l.raw AS bytes FROM redrive.dead_letters l WHERE l.id = $1
