-- Purpose: returns the time of the database.
-- Called by: admin/stats.rs. Needs no privileges.
-- Locks: none.
-- Index relied on: none.
-- Rows: always one.
SELECT clock_timestamp() AS now
