-- Purpose: removes a redaction; what it redacted stays so.
-- Called by: redaction.rs.
-- $1 bigint id  $2 text person  $3 text why
-- Locks: the redaction.
-- Index relied on: the primary key of redactions.
-- Rows: always one: whether there was one.
SELECT redrive.remove_redaction($1, $2, $3) AS found
