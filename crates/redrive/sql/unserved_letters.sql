-- Purpose: where letters would go and no live worker would take them.
-- Called by: redrive.rs and redrive/create.rs, before letters go back.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      another queue for them; NULL: their own
-- $3 boolean   whether quarantined letters are meant too
-- Locks: none.
-- Index relied on: what the filter makes narrower; it counts what it reads.
-- Rows: one a queue and kind that nobody serves. Zero rows: all is served.
SELECT u.queue, u.kind, u.letters
FROM redrive.unserved_letters($1, $2, $3) u
