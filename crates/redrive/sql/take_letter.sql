-- Purpose: takes one open letter to deliver it: it is locked until the transaction ends.
-- Called by: sink.rs, inside a transaction.
-- $1 jsonb     filter with one id; see redrive.filter_letters
-- Locks: the letter; when somebody else has it, it is left to them.
-- Index relied on: the primary key.
-- Rows: its id. Zero rows: it is not open any more, or in other hands.
SELECT c.id
FROM redrive.lock_letters($1, '{open}', statement_timestamp(), 1) AS c (id)
