-- Purpose: masks what differs from one message to the next; see redrive.mask.
-- Called by: complaint.rs.
-- $1 text[]    messages
-- Locks: none.
-- Index relied on: none.
-- Rows: one for each message, in order.
SELECT redrive.mask(m.message) AS masked
FROM unnest($1::text[]) WITH ORDINALITY AS m (message, place)
ORDER BY m.place
