-- Purpose: removes a redaction. Letters it has already redacted stay redacted.
-- Called by: dlq/redaction.rs.
-- $1 bigint id  $2 text operator  $3 text reason
-- Locks: the redaction.
-- Index relied on: the primary key of redactions.
-- Rows: always one: whether the redaction existed.
SELECT redrive.remove_redaction($1, $2, $3) AS found
