-- Purpose: counts letters that would go to a queue where no live worker handles their kind.
-- Called by: dlq/redrive.rs, before letters are redriven.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      target queue; NULL: the letter's queue
-- $3 boolean   include quarantined letters
-- Locks: none.
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per queue and kind without a live worker. Zero rows: every kind has one.
SELECT u.queue, u.kind, u.letters
FROM redrive.unserved_letters($1, $2, $3) u
