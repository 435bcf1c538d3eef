-- Purpose: lists the migrations, and the files of functions, views and triggers, that the database has applied, and returns
--          its time, in Unix seconds.
-- Called by: db/migrate.rs; metrics/reader.rs.
-- Index relied on: none; migrations is small.
-- Rows: one per migration, in order, and one per file, which has no version. An undefined-table error means that there is
--       no schema yet.
SELECT m.version, m.name, m.checksum, m.breaking, m.library, date_part('epoch', clock_timestamp()) AS now
FROM redrive.migrations m
ORDER BY m.version
