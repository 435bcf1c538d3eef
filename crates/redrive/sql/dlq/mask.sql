-- Purpose: replaces the variable parts of error messages by placeholders; see redrive.mask.
-- Called by: dlq/validation_error.rs.
-- $1 text[]    messages
-- Locks: none.
-- Index relied on: none.
-- Rows: one per message, in the given order.
SELECT redrive.mask(m.message) AS masked
FROM unnest($1::text[]) WITH ORDINALITY AS m (message, place)
ORDER BY m.place
