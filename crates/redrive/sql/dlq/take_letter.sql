-- Purpose: locks one open letter for delivery until the transaction ends.
-- Called by: dlq/deliver.rs, inside a transaction.
-- $1 jsonb     filter with one id; see redrive.filter_letters
-- Locks: the letter; it is skipped if another session holds the lock.
-- Index relied on: the primary key.
-- Rows: the id. Zero rows: the letter is no longer open, or another session has locked it.
SELECT c.id
FROM redrive.lock_letters($1, '{open}', statement_timestamp(), 1) AS c (id)
