-- Purpose: one step of the ring: truncate a drained segment, turn, or move stragglers on.
-- Called by: worker/pulse.rs, every second or so while there is work.
-- $1 bigint    bytes after which a segment has churned enough
-- $2 integer   stragglers it may move
-- Locks: ACCESS EXCLUSIVE on one drained segment, waited for at most 50 ms.
-- Index relied on: none.
-- Rows: always one: truncated, turned, moved or nothing.
SELECT redrive.turn_ring($1, $2) AS step
