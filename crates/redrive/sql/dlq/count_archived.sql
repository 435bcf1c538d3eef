-- Purpose: counts the archived letters that match a filter.
-- Called by: dlq/archive.rs.
-- $1 jsonb     filter; see redrive.filter_archive
-- Locks: none.
-- Index relied on: the primary key of archived_letters, or archived_letters_by_queue.
-- Rows: always one.
SELECT redrive.count_archived($1) AS letters
