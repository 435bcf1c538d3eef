-- Purpose: what the database says of the migrations it has had.
-- Called by: migrate.rs.
-- Locks: none.
-- Index relied on: migrations is small.
-- Rows: one a migration, in order. An undefined table means that there is no schema yet.
SELECT m.version, m.name, m.checksum, m.breaking
FROM redrive.migrations m
ORDER BY m.version
