-- Purpose: gives a letter back what it held before an edit, and writes the audit.
-- Called by: version.rs.
-- $1 bigint    the letter
-- $2 integer   the version; NULL: the one before the last edit
-- $3 text why  $4 text person
-- Locks: the letter.
-- Index relied on: the primary keys of dead_letters and letter_versions.
-- Rows: always one: the version that the letter has now.
SELECT redrive.restore_letter($1, $2, $3, $4) AS version
