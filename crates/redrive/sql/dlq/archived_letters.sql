-- Purpose: returns one page of the archive, in the order of the ids.
-- Called by: dlq/archive.rs.
-- $1 text      queue; NULL: all
-- $2 bigint    last id of the previous page; NULL: first page
-- $3 bigint    maximum number of letters
-- Locks: none.
-- Index relied on: the primary key of archived_letters, or archived_letters_by_queue.
-- Rows: the letters. Zero rows: there are no more pages.
SELECT a.id, a.queue::text AS queue, a.archived_at, a.letter
FROM redrive.archived_letters a
WHERE ($1::text IS NULL OR a.queue = $1) AND ($2::bigint IS NULL OR a.id > $2)
ORDER BY a.id
LIMIT $3
