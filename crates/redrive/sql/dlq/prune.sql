-- Purpose: deletes letters that have been closed (recovered, discarded) for longer than a given age.
--          Open letters are never deleted.
-- Called by: dlq/discard.rs, once per batch.
-- $1 bigint    age in milliseconds, since the letter was closed
-- $2 bigint    maximum number of letters
-- $3 text      operator       $4 text  reason
-- Locks: the rows it deletes; locked rows are skipped.
-- Index relied on: dead_letters_by_state.
-- Rows: always one: the number of letters deleted. Zero: no closed letter is old enough.
SELECT redrive.prune_letters($1::bigint * interval '1 millisecond', $2, $3, $4) AS pruned
