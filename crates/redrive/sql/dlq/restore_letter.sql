-- Purpose: restores an earlier version of a letter, and writes the audit.
-- Called by: dlq/version.rs.
-- $1 bigint    letter
-- $2 integer   version; NULL: the one before the last edit
-- $3 text reason  $4 text operator
-- Locks: the letter.
-- Index relied on: the primary keys of dead_letters and letter_versions.
-- Rows: always one: the letter's version after the restore.
SELECT redrive.restore_letter($1, $2, $3, $4) AS version
