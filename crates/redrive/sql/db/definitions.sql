-- Purpose: lists the files of functions, views and triggers that the database has applied.
-- Index relied on: none; definitions is small.
-- Rows: one per file, in any order. An undefined-table error means that there is no schema yet.
SELECT d.file, d.checksum, d.library
FROM redrive.definitions d
