-- Purpose: what a letter held before each of its edits.
-- Called by: version.rs.
-- $1 bigint    the letter
-- Locks: none.
-- Index relied on: the primary key of letter_versions.
-- Rows: one an edit, the oldest first. Zero rows: it was never edited, or there is no such letter.
SELECT v.version, v.payload, v.raw, v.at, v.role, v.person, v.why
FROM redrive.letter_versions v
WHERE v.letter_id = $1
ORDER BY v.version
