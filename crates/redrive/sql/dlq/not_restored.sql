-- Purpose: finds out which letters a restore left out because another session held them.
-- Called by: dlq/version.rs, after a page of which some letters were not restored.
-- $1 bigint[]  ids that were not restored
-- $2 integer   version; NULL: the one before the last edit
-- Locks: none.
-- Index relied on: the primary keys of dead_letters and letter_versions.
-- Rows: the ids of letters that could be restored. Zero rows: the others have no such version, or are closed.
SELECT l.id
FROM redrive.dead_letters l
JOIN redrive.letter_versions v ON v.letter_id = l.id AND v.version = coalesce($2, l.edits - 1)
WHERE l.id = ANY ($1::bigint[]) AND l.state IN ('open', 'quarantined')
ORDER BY l.id
