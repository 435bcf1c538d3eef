-- Purpose: stores a foreign failure as a letter, once per position of its source. Reopens a closed letter.
-- Called by: dlq/capture.rs.
-- $1 text source  $2 text position  $3 text queue  $4 text kind  $5 bytea raw bytes
-- $6 text content type  $7 jsonb headers  $8 text error class  $9 text message  $10 text detail
-- $11 text group key; NULL: none  $12 text failure key; NULL: the message decides the failure group
-- Locks: the letter of that position, if it exists.
-- Index relied on: dead_letters_captured_once.
-- Rows: always one: the id of the letter, whether it is new or reopened, and whether it has other bytes.
SELECT c.id, c.is_new, c.is_reopened,
       CASE WHEN NOT c.is_new AND NOT c.is_reopened THEN redrive.holds_other_bytes(c.id, $5) ELSE false END AS is_other
FROM redrive.capture($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS c
