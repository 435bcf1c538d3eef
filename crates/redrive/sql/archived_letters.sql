-- Purpose: reads the archive, in the order of the ids.
-- Called by: archive.rs.
-- $1 text      queue; NULL: every one
-- $2 bigint    only what comes after this id; NULL: from the start
-- $3 bigint    how many at most
-- Locks: none.
-- Index relied on: the primary key of archived_letters, or archived_letters_by_queue.
-- Rows: the letters. Zero rows: there are no more.
SELECT a.id, a.queue::text AS queue, a.archived_at, a.letter
FROM redrive.archived_letters a
WHERE ($1::text IS NULL OR a.queue = $1) AND ($2::bigint IS NULL OR a.id > $2)
ORDER BY a.id
LIMIT $3
