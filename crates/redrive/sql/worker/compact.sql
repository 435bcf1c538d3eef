-- Purpose: rewrites one small table that is full of dead rows, which returns their space even while a
--          transaction holds the xmin horizon.
-- Called by: worker/chores.rs, when a look reports it.
-- Locks: the row of the table in compactions, skipped if another session holds it; ACCESS EXCLUSIVE on
--        the table for milliseconds, after waiting at most 50 ms, and not at all while a transaction
--        keeps a lock on it.
-- Index relied on: none; compactions is small.
-- Rows: always one: the table that was rewritten (NULL: none).
SELECT redrive.compact() AS compacted
