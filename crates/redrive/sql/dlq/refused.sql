-- Purpose: explains why letters were not redriven.
-- Called by: dlq/redrive.rs, for letters selected by id.
-- $1 bigint[]  ids
-- $2 boolean   whether quarantined letters were included
-- $3 text      target queue; NULL: the letter's queue
-- Locks: none.
-- Index relied on: the primary keys of dead_letters and unique_keys.
-- Rows: one per id: gone, not_open, quarantined, too_large, no_json, conflict, locked.
SELECT r.id, r.result
FROM redrive.refused_letters($1, $2, $3) r
