-- Purpose: returns the time of the database.
-- Called by: admin/stats.rs. Needs no privileges.
-- Rows: always one.
SELECT clock_timestamp() AS now
