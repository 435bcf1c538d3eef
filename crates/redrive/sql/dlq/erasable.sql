-- Purpose: counts what an erasure would remove or change, and the leased jobs that it would leave.
-- Called by: dlq/erase.rs.
-- $1 jsonb     filter; see redrive.filter_erasure
-- Locks: none.
-- Index relied on: none; it reads every job, letter, version, archived letter and audit record.
-- Rows: one per place.
SELECT e.place, e.entries
FROM redrive.erasable($1) e
