-- Purpose: lists the migrations that the database has applied.
-- Called by: db/migrate.rs; metrics/reader.rs.
-- Index relied on: none; migrations is small.
-- Rows: one per migration, in order. An undefined-table error means that there is no schema yet.
SELECT m.version, m.name, m.checksum, m.breaking
FROM redrive.migrations m
ORDER BY m.version
