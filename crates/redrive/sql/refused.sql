-- Purpose: tells why letters were not redriven.
-- Called by: redrive.rs, for ids that were named.
-- $1 bigint[]  ids
-- $2 boolean   whether quarantined letters were to go too
-- $3 text      another queue for them; NULL: their own
-- Locks: none.
-- Index relied on: the primary keys of dead_letters and unique_keys.
-- Rows: one an id: gone, not_open, quarantined, no_json, conflict, locked.
SELECT r.id, r.what
FROM redrive.refused_letters($1, $2, $3) r
