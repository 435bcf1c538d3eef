-- Purpose: lists the earlier versions of a letter, one per edit.
-- $1 bigint    letter
-- Index relied on: the primary key of letter_versions.
-- Rows: the versions, the oldest first. Zero rows: the letter was never edited or does not exist.
SELECT v.version, v.payload, redrive.shown_bytes(v.raw) AS raw, v.at AS edited_at, v.role, v.person, v.reason
FROM redrive.letter_versions v
WHERE v.letter_id = $1
ORDER BY v.version
