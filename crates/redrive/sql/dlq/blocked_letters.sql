-- Purpose: counts letters whose jobs would wait, by queue and kind: in a paused queue, behind a breaker,
--          or because no live worker of the queue handles the kind.
-- Called by: dlq/redrive/blocked.rs, before letters are redriven and to explain why a run waits.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      target queue; NULL: the letter's queue
-- $3 text[]    states of the letters
-- $4 bigint    maximum number of letters; NULL: all
-- Locks: none.
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per queue and kind that waits, the largest first; a time without a breaker is a pause. Zero rows: none does.
SELECT b.queue, b.kind, b.letters, b.breaker, b.held_since AS since, b.is_served
FROM redrive.blocked_letters($1, $2, $3, $4) b
