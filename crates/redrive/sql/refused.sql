-- Purpose: tells why letters were not redriven.
-- Called by: redrive.rs, for ids that were named.
-- $1 bigint[]  ids
-- $2 boolean   whether quarantined letters were to go too
-- Locks: none.
-- Index relied on: the primary key of dead_letters.
-- Rows: one an id: gone, not_open, quarantined, no_json, locked.
SELECT r.id, r.what
FROM redrive.refused_letters($1, $2) r
