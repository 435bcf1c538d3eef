-- Purpose: deletes letters that are closed (recovered, discarded) and older than an age.
--          An open letter is never deleted.
-- Called by: discard.rs, in bounded batches.
-- $1 bigint    age in milliseconds, since the letter was closed
-- $2 bigint    how many at most
-- $3 text      person  $4 text why
-- Locks: the rows it deletes; locked rows are skipped.
-- Index relied on: dead_letters_closed_by_queue.
-- Rows: always one: how many are gone. Zero: nothing is that old.
SELECT redrive.prune_letters($1::bigint * interval '1 millisecond', $2, $3, $4) AS pruned
