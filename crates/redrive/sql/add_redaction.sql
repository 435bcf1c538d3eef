-- Purpose: adds a redaction, for every death from now on.
-- Called by: redaction.rs.
-- $1 text queue; NULL: every one  $2 text kind; NULL: every one
-- $3 text[] JSON pointers  $4 text[] regular expressions  $5 text person  $6 text why
-- Locks: none.
-- Index relied on: none.
-- Rows: always one: the id.
SELECT redrive.add_redaction($1, $2, $3, $4, $5, $6) AS id
