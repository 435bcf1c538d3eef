-- Purpose: deletes letters that are closed (recovered, discarded) and older than an age.
--          An open letter is never deleted.
-- Called by: prune.rs, in bounded batches.
-- $1 bigint    age in milliseconds, since the letter was closed
-- $2 bigint    how many at most
-- Locks: the rows it deletes; locked rows are skipped.
-- Index relied on: dead_letters_closed_for_prune.
-- Rows: the ids deleted. Zero rows: nothing is that old.
WITH old AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.state IN ('recovered', 'discarded')
        AND l.changed_at < statement_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY l.changed_at, l.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
DELETE FROM redrive.dead_letters l
USING old
WHERE l.id = old.id
RETURNING l.id
