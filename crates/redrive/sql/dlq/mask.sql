-- Purpose: replaces the variable parts of error messages by placeholders; see redrive.mask.
-- $1 text[]    messages
-- Rows: one per message, in the given order.
SELECT redrive.mask(m.message) AS masked
FROM unnest($1::text[]) WITH ORDINALITY AS m (message, place)
ORDER BY m.place
