-- Purpose: deletes or archives a batch of the letters that the rules of retention are done with.
-- Called by: retention.rs, by any worker once a minute, and by prune.
-- $1 bigint    how many at most
-- $2 text      `wait` for another that does it right now, or `none`
-- $3 text      person  $4 text why
-- Locks: the rows it deletes; locked rows are skipped. One at a time, by an advisory lock.
-- Index relied on: dead_letters_closed_by_queue, dead_letters_open_for_redrive.
-- Rows: always one: how many went; NULL: another one does it.
SELECT redrive.apply_retention($1, $2, $3, $4) AS taken
