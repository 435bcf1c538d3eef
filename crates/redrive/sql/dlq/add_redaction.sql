-- Purpose: adds a redaction, which applies to letters that die from now on.
-- Called by: dlq/redaction.rs.
-- $1 text queue; NULL: all  $2 text kind; NULL: all
-- $3 text[] JSON pointers  $4 text[] regular expressions  $5 text operator  $6 text reason
-- $7 boolean   whether payload values keep their JSON types
-- Locks: none.
-- Index relied on: none.
-- Rows: always one: the id of the redaction.
SELECT redrive.add_redaction($1, $2, $3, $4, $5, $6, $7) AS id
